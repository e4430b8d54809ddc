#include "interrupt.hpp"

#include <csignal>

namespace cli {

namespace {

// A signal handler can reach nothing but objects of static storage.
volatile std::sig_atomic_t noted = 0;

void take_note(int) { noted = 1; }

}  // namespace

InterruptGuard::InterruptGuard() {
  noted = 0;
  struct sigaction before{};
  if (sigaction(SIGINT, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) return;  // nohup
  struct sigaction action{};
  action.sa_handler = take_note;
  // The first signal puts the default back; reads and writes go on.
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

InterruptGuard::~InterruptGuard() {
  struct sigaction now{};
  if (sigaction(SIGINT, nullptr, &now) != 0 || now.sa_handler != take_note) return;
  now.sa_handler = SIG_DFL;
  sigaction(SIGINT, &now, nullptr);
}

bool InterruptGuard::interrupted() noexcept { return noted != 0; }

}  // namespace cli
