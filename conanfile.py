import pathlib
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy
from conan.tools.layout import basic_layout


class ForedraftConan(ConanFile):
    """Header library: `foredraft::loop`, `foredraft::foredraft`, and `foredraft::io` unless the option
    io is off."""

    name = "foredraft"
    description = "Speculative decoding of language models, header-only C++20"
    license = "MIT"
    topics = ("language-models", "speculative-decoding", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"io": [True, False]}
    default_options = {"io": True}
    no_copy_source = True
    exports_sources = "include/*", "cmake/foredraft_*.cmake", "src/compiled/*", "LICENSE"
    test_package_folder = "tests/package"

    def set_version(self):
        # The version is written down once, in the header that programs see.
        header = pathlib.Path(self.recipe_folder, "include", "foredraft", "version.hpp").read_text()
        self.version = ".".join(re.findall(r"#define FOREDRAFT_VERSION_\w+ (\d+)", header))

    # set_version runs on the exported recipe too, which has to find the header there.
    exports = "include/foredraft/version.hpp"

    def layout(self):
        basic_layout(self)

    def requirements(self):
        self.requires("eigen/3.4.0", transitive_headers=True)
        self.requires("xsimd/13.0.0", transitive_headers=True)
        if self.options.io:
            self.requires("pcre2/10.42", transitive_headers=True, transitive_libs=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        # The headers are the same whatever the settings.
        self.info.clear()

    def package(self):
        copy(self, "LICENSE", self.source_folder, pathlib.Path(self.package_folder, "licenses"))
        for pattern in ("*.hpp", "*.cuh"):
            copy(self, pattern, pathlib.Path(self.source_folder, "include"),
                 pathlib.Path(self.package_folder, "include"))
        # foredraft_add_kernels and what it compiles, in a user's project and with the user's compiler.
        for file in ("cmake/foredraft_kernels.cmake", "cmake/foredraft_instruction_sets.cmake",
                     "src/compiled/*.cpp"):
            copy(self, file, self.source_folder, self.package_folder)

    def package_info(self):
        self.cpp_info.set_property("cmake_build_modules", ["cmake/foredraft_kernels.cmake"])
        loop = self.cpp_info.components["loop"]
        loop.set_property("cmake_target_name", "foredraft::loop")
        loop.bindirs = loop.libdirs = []
        loop.requires = ["xsimd::xsimd"]
        core = self.cpp_info.components["core"]
        core.set_property("cmake_target_name", "foredraft::foredraft")
        core.bindirs = core.libdirs = []
        core.requires = ["loop", "eigen::eigen"]
        if self.settings.os == "Linux":
            core.system_libs = ["pthread"]
        if self.options.io:
            io = self.cpp_info.components["io"]
            io.set_property("cmake_target_name", "foredraft::io")
            io.bindirs = io.libdirs = []
            io.requires = ["core", "pcre2::pcre2"]
