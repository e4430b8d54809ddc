# Toolchain of tests/aarch64.sh: Debian's cross compiler for 64-bit Arm, programs run by qemu. Libraries that are
# headers alone are those of this machine.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# `max` has the int8 dot product. Programs load the libraries of the arm64 packages; with -L some would come from
# those and some from the cross compiler's, and two halves of two C libraries wait for each other forever.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-cpu;max)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig)
# Debian's xsimd is a package of headers, but not one for all architectures.
set(xsimd_ROOT /usr/lib/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu/cmake/xsimd)
