#include "interrupt.hpp"

#include <csignal>

namespace cli {

namespace {

// A signal handler can reach nothing but objects of static storage.
volatile std::sig_atomic_t noted = 0;

void take_note(int) { noted = 1; }

}  // namespace

InterruptGuard::InterruptGuard(Second second, std::initializer_list<int> signals)
    : signals_(signals) {
  noted = 0;
  struct sigaction action{};
  action.sa_handler = take_note;
  // Reads and writes go on. Where a second one ends the program, the first puts the default back.
  action.sa_flags = SA_RESTART;
  if (second == Second::kEnds) action.sa_flags |= static_cast<int>(SA_RESETHAND);
  for (const int signal : signals_) {
    struct sigaction before{};
    const bool ignored = sigaction(signal, nullptr, &before) != 0 || before.sa_handler == SIG_IGN;
    if (!ignored) sigaction(signal, &action, nullptr);  // as nohup makes it
  }
}

InterruptGuard::~InterruptGuard() {
  for (const int signal : signals_) {
    struct sigaction now{};
    // Behind a first signal the default may be there already.
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler != take_note) continue;
    now.sa_handler = SIG_DFL;
    sigaction(signal, &now, nullptr);
  }
}

bool InterruptGuard::interrupted() noexcept { return noted != 0; }
void InterruptGuard::forget() noexcept { noted = 0; }

}  // namespace cli
