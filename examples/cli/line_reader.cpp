#include "line_reader.hpp"

#include <cerrno>
#include <clocale>
#include <cstddef>
#include <cstring>
#include <cwchar>
#include <optional>
#include <string_view>

#include <poll.h>
#include <unistd.h>

#if defined(FOREDRAFT_LIBEDIT)
#include <histedit.h>
#endif

#include "interrupt.hpp"
#include "output.hpp"
#include "terminal.hpp"

namespace cli {

namespace {

/// Wait for the standard input. @return false where SIGINT came first
/// read() alone would go on behind it, as InterruptGuard asks for (SA_RESTART).
bool wait_for_input() {
  // The signal may come just before poll(), or to another thread: so it looks again and again.
  constexpr int kMilliseconds = 50;
  for (;;) {
    if (InterruptGuard::interrupted()) return false;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const int ready = poll(&input, 1, kMilliseconds);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return true;  // read() says what is wrong
  }
}

/// read() from the standard input, which a SIGINT ends, too.
/// @return bytes, 0 at the end; nothing where it was interrupted @errors kIo
std::optional<std::size_t> read_bytes(char* into, std::size_t most) {
  for (;;) {
    if (!wait_for_input()) return std::nullopt;
    const ssize_t got = ::read(STDIN_FILENO, into, most);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno == EIO) return 0;  // the terminal is gone
    throw fd::Error(fd::ErrorCode::kIo, std::string("the standard input: ") + std::strerror(errno),
                    "text", "is it closed, or a folder?");
  }
}

}  // namespace

#if defined(FOREDRAFT_LIBEDIT)

/// libedit with the keys of readline, and a history that ends with the program.
class LineReader::Editor {
 public:
  Editor() : history_(history_init()), edit_(el_init("foredraft", stdin, stdout, stderr)) {
    // It decodes what is typed by the user's locale; without one, UTF-8.
    const char* const locale = std::setlocale(LC_CTYPE, "");
    if (locale == nullptr || std::string_view(locale) == "C") std::setlocale(LC_CTYPE, "C.UTF-8");
    HistEvent event{};
    history(history_, &event, H_SETSIZE, 1000);
    history(history_, &event, H_SETUNIQUE, 1);
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_PROMPT, &prompt_of);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_SIGNAL, 0);  // its handler would send SIGINT to the whole group once more
    el_set(edit_, EL_GETCFN, &character);
    el_set(edit_, EL_HIST, history, history_);
    el_source(edit_, nullptr);  // ~/.editrc
  }
  ~Editor() {
    el_end(edit_);
    history_end(history_);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;

  Line read(const std::string& prompt, std::string& text) {
    prompt_ = prompt;
    el_resize(edit_);  // without EL_SIGNAL nobody tells it that the window has another size
    el_set(edit_, EL_PREP_TERM, 1);  // before the prompt invites anybody to type
    int count = 0;
    const char* const line = el_gets(edit_, &count);
    if (line == nullptr || count <= 0) {
      write_out("\n");
      const LineInfo* const info = el_line(edit_);
      text.assign(info->buffer, info->lastchar);
      return InterruptGuard::interrupted() ? Line::kInterrupted : Line::kEnd;
    }
    text.assign(line, static_cast<std::size_t>(count));
    if (text.ends_with('\n')) text.pop_back();
    HistEvent event{};
    if (!text.empty()) history(history_, &event, H_ENTER, text.c_str());
    return Line::kText;
  }

 private:
  static char* prompt_of(EditLine* edit) {
    void* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return static_cast<Editor*>(self)->prompt_.data();
  }

  /// The next character. libedit's own would swallow the first signal.
  static int character(EditLine*, wchar_t* into) try {
    std::mbstate_t state{};
    for (;;) {
      char byte = 0;
      const auto got = read_bytes(&byte, 1);
      if (!got) return -1;
      if (*got == 0) return 0;
      if (byte == '\0') byte = kEndOfInput;  // Ctrl-D, typed before the terminal was prepared
      const std::size_t length = std::mbrtowc(into, &byte, 1, &state);
      if (length == static_cast<std::size_t>(-2)) continue;  // not complete
      if (length != static_cast<std::size_t>(-1)) return 1;
      state = {};  // of no character: passed over
    }
  } catch (const fd::Error&) {
    return 0;  // libedit is C: no exception may cross it
  }

  static constexpr char kEndOfInput = 4;

  std::string prompt_;
  History* history_;
  EditLine* edit_;
};

#else

class LineReader::Editor {};

#endif

LineReader::LineReader() : interactive_(is_terminal(STDIN_FILENO) && is_terminal(STDOUT_FILENO)) {
#if defined(FOREDRAFT_LIBEDIT)
  if (interactive_) editor_ = std::make_unique<Editor>();
#endif
}

LineReader::~LineReader() = default;

LineReader::Line LineReader::read(const std::string& prompt, std::string& text) {
  text.clear();
#if defined(FOREDRAFT_LIBEDIT)
  if (editor_) return editor_->read(prompt, text);
#endif
  if (interactive_) write_out(prompt);
  const Line line = read_plain(text);
  // Ctrl-C and Ctrl-D leave the cursor behind the prompt.
  if (interactive_ && line != Line::kText) write_out("\n");
  return line;
}

LineReader::Line LineReader::read_plain(std::string& text) {
  constexpr std::size_t kMost = std::size_t{64} << 20;  // no context holds as much
  for (std::size_t seen = 0;;) {
    const std::size_t end = pending_.find('\n', seen);
    if (end != std::string::npos) {
      text = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      if (text.ends_with('\r')) text.pop_back();
      return Line::kText;
    }
    seen = pending_.size();
    if (seen > kMost) {
      throw fd::Error(fd::ErrorCode::kIo, "a line of more than 64 MiB", "a message",
                      "is it a text?");
    }
    char block[1 << 16];
    const auto got = read_bytes(block, sizeof block);
    if (!got) {
      pending_.clear();  // a line that was broken off is no message
      return Line::kInterrupted;
    }
    if (*got == 0) {
      text.swap(pending_);
      pending_.clear();
      return text.empty() ? Line::kEnd : Line::kText;
    }
    pending_.append(block, *got);
  }
}

}  // namespace cli
