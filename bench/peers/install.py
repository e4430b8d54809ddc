"""Install what foredraft is measured beside: python3 bench/peers/install.py FOLDER

Makes a virtual environment in FOLDER with llama-cpp-python and ik-llama-cpp-python, compiled for this machine (15 to 60
minutes; CC and CXX choose the compiler), and matplotlib. FOLDER/bin/python is the PYTHON of compare.py and run_all.py.
"""
import os
import pathlib
import subprocess
import sys
import tarfile

# The versions that the result files name. Another one may well be faster: measure all of them anew.
LLAMA = "llama-cpp-python==0.3.36"
IK_LLAMA = "ik-llama-cpp-python==0.1.5"
# The source package of ik_llama.cpp lacks this file, and its build stops without it.
BUILD_INFO = """set(BUILD_NUMBER 0)
set(BUILD_COMMIT unknown)
configure_file(${CMAKE_CURRENT_LIST_DIR}/../build-info.cpp.in ${CMAKE_CURRENT_LIST_DIR}/../build-info.cpp)
"""


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    python = folder / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    environment = {**os.environ, "CMAKE_ARGS": "-DGGML_NATIVE=ON"}

    def pip(*words):
        subprocess.run([python, "-m", "pip", "-q", *words], check=True, env=environment)

    pip("install", "matplotlib", "numpy")
    pip("install", "--no-binary", "llama-cpp-python", LLAMA)
    sources = folder / "sources"
    pip("download", "--no-deps", "--no-binary", ":all:", "-d", sources, IK_LLAMA)
    archive = max(sources.glob("ik_llama_cpp_python-*.tar.gz"))
    with tarfile.open(archive) as files:
        files.extractall(sources)
    unpacked = sources / archive.name.removesuffix(".tar.gz")
    missing = unpacked / "vendor/ik_llama.cpp/common/cmake/build-info-gen-cpp.cmake"
    if missing.parents[1].exists() and not missing.exists():
        missing.parent.mkdir(exist_ok=True)
        missing.write_text(BUILD_INFO)
    pip("install", unpacked)


if __name__ == "__main__":
    main()
