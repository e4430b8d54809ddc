from conan import ConanFile


class System(ConanFile):
    """PCRE2 as the system has installed it."""

    name = "pcre2"
    version = "system"
    package_type = "shared-library"
    build_policy = "missing"  # there is nothing to build

    def package_info(self):
        self.cpp_info.includedirs = []
        self.cpp_info.libdirs = self.cpp_info.bindirs = []
        self.cpp_info.system_libs = ["pcre2-8"]
