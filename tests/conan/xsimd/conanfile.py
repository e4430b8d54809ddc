from conan import ConanFile


class System(ConanFile):
    """xsimd as the system has installed it."""

    name = "xsimd"
    version = "system"
    package_type = "header-library"
    build_policy = "missing"  # there is nothing to build

    def package_info(self):
        self.cpp_info.includedirs = []
        self.cpp_info.libdirs = self.cpp_info.bindirs = []
        self.cpp_info.system_libs = []
