#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace foredraft::inline v0::cuda {

/// A function with a stack of its own that can pause in the middle: a thread of a grid that the host
/// executes. Fibers of one owner run on one thread of the system, one at a time.
///
/// No exception may leave a fiber. One that is never resumed again is forgotten: nothing on its stack
/// is destroyed.
/// @cost resume and pause: some ten instructions on x86-64, elsewhere two system calls
class Fiber {
 public:
  /// Begin body(argument) at the next resume(). @param stack  [bytes], the fiber's until it is done
  void start(void (*body)(void*), void* argument, std::byte* stack, std::size_t bytes) noexcept {
    body_ = body;
    argument_ = argument;
    done_ = false;
#if defined(__x86_64__)
    // Where a function finds its stack when it is called: 8 bytes below a multiple of 16.
    auto top = reinterpret_cast<std::uintptr_t>(stack + bytes) / 16 * 16 - 16;
    const auto entry = reinterpret_cast<std::uintptr_t>(&enter);
    std::memset(reinterpret_cast<void*>(top), 0, 16);
    std::memcpy(reinterpret_cast<void*>(top), &entry, sizeof entry);
    there_ = reinterpret_cast<void*>(top);
#else
    getcontext(&there_);
    there_.uc_stack.ss_sp = stack;
    there_.uc_stack.ss_size = bytes;
    there_.uc_link = nullptr;
    makecontext(&there_, &enter, 0);
#endif
  }

  /// Run until it pauses or is done. Called by the owner.
  void resume() noexcept {
    Fiber* const outer = current();
    current() = this;
    exchange(here_, there_);
    current() = outer;
  }
  /// Return to the owner. Called on the fiber.
  void pause() noexcept { exchange(there_, here_); }

  bool done() const noexcept { return done_; }

 private:
  static Fiber*& current() noexcept {
    thread_local Fiber* running = nullptr;
    return running;
  }
  [[noreturn]] static void enter() noexcept {
    Fiber* const self = current();
    self->body_(self->argument_);
    self->done_ = true;
    for (;;) self->pause();
  }

#if defined(__x86_64__)
  using Place = void*;  // top of a stack that pauses

  /// Keep what a function has to keep on the stack, and go on on the other one.
#if defined(__GNUC__) && !defined(__clang__)
  [[gnu::noipa]]
#else
  [[gnu::noinline]]
#endif
  static void exchange(Place& from, Place& to) noexcept {
    Place* const keep = &from;
    Place* const take = &to;
    asm volatile(
        "leaq -128(%%rsp), %%rsp\n\t"  // the compiler may use so much below the stack
        "pushq %%rbp\n\t"
        "pushq %%rbx\n\t"
        "leaq 1f(%%rip), %%rax\n\t"
        "pushq %%rax\n\t"
        "movq %%rsp, (%0)\n\t"
        "movq (%1), %%rsp\n\t"
        "popq %%rax\n\t"
        "jmpq *%%rax\n"
        "1:\n\t"
        "popq %%rbx\n\t"
        "popq %%rbp\n\t"
        "leaq 128(%%rsp), %%rsp"
        :
        : "D"(keep), "S"(take)
        : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory",
          "cc");
  }
#else
  using Place = ucontext_t;
  static void exchange(Place& from, Place& to) noexcept { swapcontext(&from, &to); }
#endif

  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool done_ = true;
  Place here_ = {};   // of the owner
  Place there_ = {};  // of the fiber
};

}  // namespace foredraft::inline v0::cuda
