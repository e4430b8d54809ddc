"""The checks of this folder find what they look for: each is shown one fault at a time."""

import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import errors  # noqa: E402
import headers  # noqa: E402
import includes  # noqa: E402
import layers  # noqa: E402
import links  # noqa: E402
import standalone  # noqa: E402
import tile_stack  # noqa: E402
import weak_symbols  # noqa: E402

TABLE = """
| layer | holds | may include | libraries |
|---|---|---|---|
| `core` | words | | |
| `backend` | operators | `core` | Eigen |
| `model` | models | `core`, `backend` | |

| headers | do not include | because |
|---|---|---|
| `model/`, but not `model/all.hpp` | `backend/cpu/` | a model runs on any backend |
"""


class Tree(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name).resolve()

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def header(self, path, *targets):
        text = "".join(f"#include {target}\n" for target in targets)
        self.write(f"include/foredraft/{path}", "#pragma once\n" + text)

    def assert_found(self, check, *parts):
        lines = check.problems(self.root)
        self.assertEqual(len(lines), 1, lines)
        for part in parts:
            self.assertIn(part, lines[0])


class Layers(Tree):
    def setUp(self):
        super().setUp()
        self.write("docs/design/layers.md", TABLE)
        self.header("core/a.hpp", "<vector>")
        self.header("backend/b.hpp", "<foredraft/core/a.hpp>", "<Eigen/Core>")
        self.header("model/m.hpp", "<foredraft/backend/b.hpp>")
        self.header("generate.hpp", "<foredraft/core/a.hpp>")

    def test_clean(self):
        self.assertEqual(layers.problems(self.root), [])

    def test_upwards(self):
        self.header("core/c.hpp", "<foredraft/backend/b.hpp>")
        self.assert_found(layers, "core may not include backend")

    def test_above(self):
        self.header("core/c.hpp", "<foredraft/generate.hpp>")
        self.assert_found(layers, "lies above it")

    def test_drafter_with_model(self):
        self.write("docs/design/layers.md", TABLE + "| `drafter` | drafts | `core`, `model` | |\n")
        self.header("drafter/model_drafter.hpp", "<foredraft/model/m.hpp>")
        self.assertEqual(layers.problems(self.root), [])
        self.header("drafter/d.hpp", "<foredraft/model/m.hpp>")
        lines = layers.problems(self.root)
        self.assertEqual(len(lines), 2, lines)  # the model, and the backend behind it
        self.assertIn("drafter/d.hpp reaches backend/b.hpp: the loop must not need a model", lines)

    def test_drafter_with_loop(self):
        self.write("docs/design/layers.md", TABLE + "| `drafter` | drafts | `core` | |\n")
        self.header("turn.hpp")
        self.header("drafter/d.hpp", "<foredraft/turn.hpp>")
        self.assert_found(layers, "lies above it")

    def test_cycle(self):
        self.header("core/a.hpp", "<foredraft/core/c.hpp>")
        self.header("core/c.hpp", "<foredraft/core/a.hpp>")
        self.assert_found(layers, "cycle")

    def test_library(self):
        self.header("core/c.hpp", "<Eigen/Core>")
        self.assert_found(layers, "core does not use Eigen")

    def test_unknown_layer(self):
        self.header("extra/c.hpp")
        self.assert_found(layers, "extra is not in the table")

    def test_loop_with_model(self):
        self.header("models.hpp", "<foredraft/backend/b.hpp>")
        self.assertEqual(layers.problems(self.root), [])
        self.header("generate.hpp", "<foredraft/backend/b.hpp>")
        self.assert_found(layers, "must not need a model")

    def test_quotes_and_missing(self):
        self.header("core/c.hpp", '"a.hpp"')
        self.assert_found(layers, "write <foredraft/...>")
        self.header("core/c.hpp", "<foredraft/core/gone.hpp>")
        self.assert_found(layers, "does not exist")

    def test_cuda_in_host_header(self):
        self.header("k.hpp", "<cuda_runtime.h>")
        self.assert_found(layers, "a host header includes <cuda_runtime.h>")

    def test_kernels_for_a_gpu_in_host_header(self):
        self.header("core/k.cuh")
        self.header("backend/k.cuh", "<foredraft/core/k.cuh>")
        self.assertEqual(layers.problems(self.root), [])
        self.header("core/c.hpp", "<foredraft/core/k.cuh>")
        self.assert_found(layers, "core/c.hpp: a host header includes core/k.cuh")
        self.header("core/c.hpp")
        self.header("generate.hpp", "<foredraft/core/k.cuh>")
        self.assert_found(layers, "generate.hpp: a host header includes core/k.cuh")

    def test_finer_rule(self):
        self.header("backend/cpu/c.hpp")
        self.header("model/all.hpp", "<foredraft/backend/cpu/c.hpp>")
        self.assertEqual(layers.problems(self.root), [])
        self.header("model/n.hpp", "<foredraft/backend/cpu/c.hpp>")
        self.assert_found(layers, "model/n.hpp", "by a finer rule")


class RulesOfThisProject(Tree):
    """What the project's own page forbids, broken one by one."""

    def setUp(self):
        Tree.setUp(self)
        page = pathlib.Path(__file__).parents[2] / "docs" / "design" / "layers.md"
        self.write("docs/design/layers.md", page.read_text())
        self.header("core/a.hpp")
        self.header("generate.hpp", "<foredraft/core/a.hpp>")
        for backend in ("cpu", "cuda", "reference"):
            self.header(f"backend/{backend}/c.hpp")
        self.header("cache/storage.hpp", "<foredraft/backend/cpu/c.hpp>")
        self.header("core/options.hpp")
        self.header("core/round_event.hpp")
        self.header("sampling/s.hpp")

    def test_indirectly(self):
        self.header("core/b.hpp", "<foredraft/core/options.hpp>")
        self.header("drafter/x.hpp", "<foredraft/core/b.hpp>")
        self.assert_found(layers, "drafter/x.hpp: reaches core/options.hpp", "finer rule")

    def test_exceptions(self):
        """Each is needed: without it the header that it is for is found."""
        self.assertEqual(layers.problems(self.root), [])
        page = self.root / "docs" / "design" / "layers.md"
        text = page.read_text()
        page.write_text(text.replace("`cache/storage.hpp`", "`model/none.hpp`"))
        self.assert_found(layers, "cache/storage.hpp", "backend/cpu/c.hpp, by a finer rule")
        page.write_text(text)

    def test_named(self):
        """A header that includes no backend may get one from another header, and does not name it."""
        for path, code in [
                ("model/x.hpp", "cpu::Rows<float>"), ("model/family/x.hpp", "foredraft::cuda::Rows"),
                ("cache/x.hpp", "cpu::Rows<float>"), ("cache/x.hpp", "cuda::Rows"),
                ("cache/storage.hpp", "cuda::Rows"), ("model/load.hpp", "cpu::PackedMatrix"),
                ("backend/cuda/x.hpp", "cpu::Rows<float>"), ("backend/x.hpp", "cpu::Rows<float>"),
                ("model/x.hpp", "Model<Cpu>"), ("cache/x.hpp", "Reference"), ("model/family/x.hpp", "Cuda"),
                ("model/x.hpp", "CudaRows<float>"), ("drafter/x.hpp", "Options"), ("sampling/x.hpp", "RoundEvent")]:
            with self.subTest(f"{path} names {code}"):
                self.write(f"include/foredraft/{path}", f"// {code}\nusing T = {code};\n")
                self.assert_found(layers, path, "does not name", "by a finer rule")
                self.write(f"include/foredraft/{path}", f"// {code}\n")
                self.assertEqual(layers.problems(self.root), [])
        for path in ("cache/storage.hpp", "backend/cpu/x.hpp"):
            self.write(f"include/foredraft/{path}", "using T = cpu::Rows<float>;\n")
            self.assertEqual(layers.problems(self.root), [])

    def test_broken(self):
        for path, target in [
                ("model/x.hpp", "backend/cpu/c.hpp"), ("model/family/x.hpp", "backend/cpu/c.hpp"),
                ("model/x.hpp", "backend/cuda/c.hpp"), ("model/family/x.hpp", "backend/cuda/c.hpp"),
                ("model/x.hpp", "backend/reference/c.hpp"),
                ("cache/x.hpp", "backend/cpu/c.hpp"), ("cache/x.hpp", "backend/cuda/c.hpp"),
                ("cache/x.hpp", "backend/reference/c.hpp"),
                ("cache/storage.hpp", "backend/cuda/c.hpp"),
                ("cache/storage.hpp", "backend/reference/c.hpp"),
                ("backend/x.hpp", "backend/cpu/c.hpp"), ("backend/x.hpp", "backend/cuda/c.hpp"),
                ("backend/x.hpp", "backend/reference/c.hpp"),
                ("backend/cpu/x.hpp", "backend/cuda/c.hpp"),
                ("backend/cpu/x.hpp", "backend/reference/c.hpp"),
                ("backend/cuda/x.hpp", "backend/cpu/c.hpp"),
                ("backend/cuda/x.hpp", "backend/reference/c.hpp"),
                ("backend/reference/x.hpp", "backend/cpu/c.hpp"),
                ("backend/reference/x.hpp", "backend/cuda/c.hpp"),
                ("drafter/x.hpp", "generate.hpp"), ("drafter/x.hpp", "core/options.hpp"),
                ("cache/x.hpp", "core/round_event.hpp"), ("backend/x.hpp", "sampling/s.hpp"),
                ("backend/cpu/x.hpp", "sampling/s.hpp")]:
            with self.subTest(f"{path} includes {target}"):
                self.header(path, f"<foredraft/{target}>")
                self.assert_found(layers, path)
                self.header(path)


class Headers(Tree):
    def setUp(self):
        super().setUp()
        self.write("tests/core/a.test.cpp", "")

    def check(self, text, *parts):
        self.write("include/foredraft/core/a.hpp", text)
        if parts:
            self.assert_found(headers, *parts)
        else:
            self.assertEqual(headers.problems(self.root), [])

    def test_contents(self):
        self.check("#pragma once\nstatic_assert(true);  // std::cout, abort(), assert()\n")
        self.check("int a;\n", "no #pragma once")
        self.check("#pragma once\n" + "\n" * 600, "601 lines")
        self.check("#pragma once\nusing namespace std;\n", "a.hpp:2: using namespace")
        self.check("#pragma once\nvoid f() { assert(true); }\n", "instead of assert")
        self.check("#pragma once\n#define MAX 3\n", "macros")
        for bare in "a.b = {\n.c = 3}", "if (a) *b = {.c = 3}", "{ a_[0] = {.c = 3}":
            self.check(f"#pragma once\n{bare};\n", "nvcc")
        for named in "a = T{.c = 3}", "T a = {.c = 3}", "f({.c = 3})", "T{.a = {.c = 3}}":
            self.check(f"#pragma once\n{named};\n")

    def test_missing_test(self):
        self.check("#pragma once\n")
        self.write("include/foredraft/core/b.hpp", "#pragma once\n")
        self.assert_found(headers, "no tests/core/b.test.cpp")


class Includes(Tree):
    def with_code(self, code, *targets):
        self.header("a.hpp", *targets)
        header = self.root / "include/foredraft/a.hpp"
        header.write_text(header.read_text() + code)

    def test_clean(self):
        self.with_code("std::vector<int> a = std::move(b);  // no std::span\n", "<utility>", "<vector>")
        self.assertEqual(includes.problems(self.root), [])

    def test_one_of_several(self):
        self.with_code("std::streamsize n;\n", "<ostream>")
        self.assertEqual(includes.problems(self.root), [])

    def test_missing(self):
        self.with_code("std::vector<int> a;\nstd::vector<int> b;\n")
        self.assert_found(includes, "a.hpp:2:", "std::vector without <vector>")

    def test_for_nothing(self):
        self.with_code("std::vector<int> a;\n", "<array>", "<vector>")
        self.assert_found(includes, "<array> for nothing")

    def test_operators(self):
        self.with_code("auto operator<=>(const A&) const = default;\n", "<compare>")
        self.assertEqual(includes.problems(self.root), [])

    def test_operators_without(self):
        self.with_code("auto operator<=>(const A&) const = default;\n")
        self.assert_found(includes, "operator<=> without <compare>")

    def test_one_that_is_needed_anyway(self):
        self.with_code("std::abs(std::sin(x));\n", "<cmath>", "<cstdlib>")
        self.assert_found(includes, "<cstdlib> for nothing")

    def test_unknown(self):
        self.with_code("std::mdspan<int> a;\n")
        self.assert_found(includes, "std::mdspan: say in")


class Errors(Tree):
    HEADER = ('enum class ErrorCode {\n  kIo,  ///< file\n};\n'
              'case ErrorCode::kIo: return "io";\n')
    PAGE = "# Errors\n\n## `io` (kIo)\n\n**Cause.** A.\n\n**Remedy.** B.\n"

    def check(self, header, page, *parts):
        self.write("include/foredraft/core/error.hpp", header)
        self.write("docs/reference/errors.md", page)
        if parts:
            self.assert_found(errors, *parts)
        else:
            self.assertEqual(errors.problems(self.root), [])

    def test_page_and_enum(self):
        self.check(self.HEADER, self.PAGE)
        self.check(self.HEADER, self.PAGE.replace("**Remedy.**", ""), "no **Remedy.**")
        self.check(self.HEADER, self.PAGE.replace("`io`", "`oi`"), "expected")
        self.check(self.HEADER.replace("};", "kMore,\n};"), self.PAGE, "kMore has no spelling")


class Links(Tree):
    def setUp(self):
        super().setUp()
        self.write("mkdocs.yml", "site_name: x\nnav:\n  - Home: index.md\n  - More: more.md\n")
        self.write("docs/more.md", "# More\n\n## The `second` part\n")
        self.write("README.md", "[docs](docs/index.md)")

    def check(self, text, *parts):
        self.write("docs/index.md", text)
        if parts:
            self.assert_found(links, *parts)
        else:
            self.assertEqual(links.problems(self.root), [])

    def test_links(self):
        self.check("[a](more.md) [b](more.md#the-second-part) [c](https://example.org)")
        self.check("```\n[not a link](nowhere.md)\n```\n")
        self.check("[a](gone.md)", "does not exist")
        self.check("[a](more.md#third)", "no such heading")
        self.check("[a](../README.md)", "leaves docs/")
        self.check("[a](../examples/one.cpp)", "does not exist")
        self.write("examples/one.cpp", "")
        self.check("[a](../examples/one.cpp)")  # a page of the site: docs/source_pages.py
        self.check("[a](../../x.md)", "leaves the project")
        self.check("see `docs/gone.md`", "does not exist")

    def test_navigation(self):
        self.check("")
        self.write("docs/orphan.md", "")
        self.assert_found(links, "orphan.md is not in the navigation")


class Standalone(Tree):
    def test_lines(self):
        self.write("docs/a.md", "build/ and ~/.cache and https://x.org/home/page and $HOME/home/x")
        self.assertEqual(standalone.problems(self.root), [])
        for text in ("see /home/somebody/x", "// TODO later", "a stub", "in ../shared/x"):
            self.write("docs/a.md", text)
            self.assert_found(standalone, "docs/a.md:1")


@unittest.skipUnless(platform.machine() == "x86_64" and shutil.which("g++") and shutil.which("objdump"),
                     "needs g++ and objdump on x86-64")
class WeakSymbols(Tree):
    def compile(self, code, *flags):
        self.write("unit.cpp", code)
        unit = self.root / "unit.o"
        subprocess.run(["g++", "-std=c++20", "-O2", *flags, "-c", self.root / "unit.cpp", "-o", unit],
                       check=True)
        return weak_symbols.check_object("objdump", unit)

    SHARED = ("template <class T> [[gnu::noinline]] T sum(const T* x, int n) "
              "{ T s = 0; for (int i = 0; i < n; ++i) s += x[i]; return s; }\n"
              "template float sum<float>(const float*, int);\n")

    def test_shared_template(self):
        self.assertEqual(self.compile(self.SHARED), {})
        self.assertEqual(len(self.compile(self.SHARED, "-march=x86-64-v3")), 1)

    def test_tagged_template(self):
        tagged = """
            namespace foredraft::inline v0::cpu {
            enum class Isa : unsigned char { kPortable, kAvx2, kAvxVnni, kAvx512, kAvx512Vnni };
            template <Isa, Isa> struct InstructionSet {};
            template <class Arch> [[gnu::noinline]] float sum(const float* x, int n) {
              float s = 0; for (int i = 0; i < n; ++i) s += x[i]; return s; }
            template float sum<InstructionSet<Isa::kPortable, Isa::kAvx2>>(const float*, int);
            }"""
        self.assertEqual(self.compile(tagged, "-march=x86-64-v3"), {})
        portable = tagged.replace("Isa::kAvx2>>", "Isa::kPortable>>")
        self.assertEqual(len(self.compile(portable, "-march=x86-64-v3")), 1)

    def test_called_on_any_machine(self):
        """The unit's own functions that hand out kernels, and initialisation."""
        table = "struct Table { float x[16]; };\nextern const Table base;\n"
        getter = table + "Table copy() { return base; }\n"
        start = table + "static Table copied = base;\nconst Table* address() { return &copied; }\n"
        for code in (getter, start):
            self.assertEqual(self.compile(code), {})
            self.assertEqual(len(self.compile(code, "-march=x86-64-v4")), 1)

    def test_own_namespace(self):
        inside = "namespace foredraft::inline v0::{} {{\n" + self.SHARED.replace("{", "{{").replace(
            "}", "}}") + "}}\n"
        self.assertEqual(self.compile(inside.format("inline avx2"), "-march=x86-64-v3"), {})
        wide = self.compile(inside.format("inline avx2"), "-march=x86-64-v4")
        self.assertTrue(all("AVX-512" in what for what in wide.values()))
        self.assertEqual(self.compile(inside.format("inline avx512"), "-march=x86-64-v4"), {})
        self.assertEqual(len(self.compile(inside.format("inline other"), "-march=x86-64-v3")), 1)


class TileStack(unittest.TestCase):
    HEAD = ("0000000000000000 <foredraft::v0::cpu::Tile<foredraft::v0::cpu::InstructionSet<(foredraft::v0::cpu::"
            "Isa)4, (foredraft::v0::cpu::Isa)4>, (foredraft::v0::TensorType)12, 2>::run(int)>:\n")
    RESULT = "  10:\tvmovaps %zmm1,0x40(%rsp)\n"

    def found(self, body):
        return tile_stack.problems(tile_stack.traffic(self.HEAD + body))

    def test_results_may_be_stored(self):
        self.assertEqual(self.found(2 * self.RESULT), [])

    def test_further_stores_are_spills(self):
        self.assertEqual(len(self.found(3 * self.RESULT)), 1)

    def test_loads_are_spills(self):
        self.assertEqual(len(self.found("  10:\tvpaddd 0x40(%rsp),%zmm1,%zmm2\n")), 1)

    def test_copies_are_counted_apart(self):
        copy = self.HEAD.replace("run(int)>", "run(int) [clone .constprop.0]>")
        self.assertEqual(self.found(2 * self.RESULT + copy + 2 * self.RESULT), [])
        self.assertEqual(len(self.found(2 * self.RESULT + copy + 3 * self.RESULT)), 1)

    def test_amx_keeps_nothing_on_the_stack(self):
        for name, n_found in (("unpack", 1), ("combine", 1), ("run", 0)):
            head = ("0000000000000000 <foredraft::v0::cpu::AmxMatmul<foredraft::v0::cpu::InstructionSet<(foredraft::"
                    "v0::cpu::Isa)3, (foredraft::v0::cpu::Isa)3>, (foredraft::v0::TensorType)12, foredraft::v0::cpu::"
                    f"AmxTiles>::{name}(int)>:\n")
            self.assertEqual(len(tile_stack.problems(tile_stack.traffic(head + self.RESULT))), n_found)

    def test_pointers_in_vector_registers_do_not_count(self):
        self.assertEqual(self.found(2 * self.RESULT + "  10:\tvmovq  %xmm19,0x28(%rsp)\n"), [])

    def test_other_memory_and_other_functions_do_not_count(self):
        self.assertEqual(self.found("  10:\tvmovaps 0x40(%rdi),%zmm1\n" * 9), [])
        self.assertEqual(self.found("0000000000000010 <other()>:\n" + 9 * self.RESULT), [])


if __name__ == "__main__":
    unittest.main()
