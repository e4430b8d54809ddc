#include "interrupt.hpp"

#include <csignal>

namespace cli {

namespace {

// A signal handler can reach nothing but objects of static storage.
volatile std::sig_atomic_t noted = 0;

void take_note(int) { noted = 1; }

}  // namespace

InterruptGuard::InterruptGuard(Second second) {
  noted = 0;
  struct sigaction before{};
  if (sigaction(SIGINT, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) return;  // nohup
  struct sigaction action{};
  action.sa_handler = take_note;
  // Reads and writes go on. Where a second one ends the program, the first puts the default back.
  action.sa_flags = SA_RESTART;
  if (second == Second::kEnds) action.sa_flags |= static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

InterruptGuard::~InterruptGuard() {
  struct sigaction now{};
  // Behind a first signal the default may be there already.
  if (sigaction(SIGINT, nullptr, &now) != 0 || now.sa_handler != take_note) return;
  now.sa_handler = SIG_DFL;
  sigaction(SIGINT, &now, nullptr);
}

bool InterruptGuard::interrupted() noexcept { return noted != 0; }
void InterruptGuard::forget() noexcept { noted = 0; }

}  // namespace cli
