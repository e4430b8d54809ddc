#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <foredraft/core/error.hpp>
#include <foredraft/core/index.hpp>
#include <foredraft/core/state_archive.hpp>

#include "commands.hpp"
#include "conversation.hpp"
#include "generate_arguments.hpp"
#include "interrupt.hpp"
#include "learned_files.hpp"
#include "line_reader.hpp"
#include "ngram_file.hpp"
#include "output.hpp"
#include "printer.hpp"
#include "prompts.hpp"
#include "report.hpp"
#include "session.hpp"
#include "snapshot_file.hpp"
#include "state_file.hpp"
#include "survey.hpp"
#include "terminal.hpp"
#include "trace_file.hpp"

namespace cli {

namespace {

struct ChatArguments {
  GenerateArguments generate;
  std::string system;
  int store_mib = 1024;
};

constexpr const char* kHelp =
    "/reset      begin anew\n"
    "/undo       take the last message and its answer back\n"
    "/stats      speed and drafts, of the last answer and of all\n"
    "/save FILE  the conversation with all that was computed for it\n"
    "/load FILE  go on with one\n"
    "/quit       end; so does Ctrl-D. Ctrl-C ends an answer\n"
    "A line that ends with \\ goes on in the next one; // begins a message with /\n";

/// What a file of /save holds beside the snapshot.
struct Note {
  std::vector<std::uint64_t> turns = {};
  std::string controller = {};

  static void parts(auto& self, auto& archive) {
    archive(self.turns);
    archive(self.controller);
  }
  std::string bytes() const {
    fd::PayloadWriter out;
    fd::StateWriter{out}(*this);
    return {reinterpret_cast<const char*>(out.bytes().data()), out.bytes().size()};
  }
  /// @errors kCorruptFile
  static Note of(const std::string& bytes) {
    Note note;
    fd::PayloadReader in(std::as_bytes(std::span(bytes)), 0);
    fd::StateReader{in}(note);
    in.end();
    return note;
  }
};

/// A conversation at work: messages and commands, one a line.
class Chat {
 public:
  Chat(const ChatArguments& asked, const RunFacts& facts, const StateFile::Run& run,
       Session& session, Conversation conversation, TraceFile& trace)
      : facts_(facts),
        session_(session),
        trace_(trace),
        conversation_(std::move(conversation)),
        files_(facts.models, run, session),
        vocabulary_(fingerprint(facts.models.target.tokenizer())),
        options_(facts.asked.options) {
    options_.cancelled = [] { return InterruptGuard::interrupted(); };
    session_.use_store(std::size_t(asked.store_mib) << 20);
    // What the model is told before the first message is not to be forgotten.
    if (facts.asked.context_shift) {
      const int opening = static_cast<int>(conversation_.opening().size());
      const int least = fd::ContextShift().keep;
      session_.shift_context({facts.asked.keep.value_or(std::max(least, opening))});
    }
  }

  /// Until there is nothing more to say. @return the exit status
  int run() {
    if (input_.interactive()) {
      note("context of " + std::to_string(facts_.method.n_ctx) +
           " tokens; /help lists the commands");
    }
    read_opening();
    std::string text;
    while (read(text) && !ended_by_interrupt() && follow(text)) continue;
    if (ended_by_interrupt()) return kExitInterrupt;
    // At a terminal the user has seen the errors; a script looks at the status.
    return failed_ && !input_.interactive() ? kExitFailure : 0;
  }

 private:
  static void note(const std::string& text) { std::cerr << "foredraft: " << text << std::endl; }
  void complain(const fd::Error& error) {
    failed_ = true;
    note(std::string("error: ") + visible(error.what()));
  }

  /// Without somebody who could go on, the signal is meant for all of it, whenever it came.
  bool ended_by_interrupt() const { return !input_.interactive() && InterruptGuard::interrupted(); }
  void forget_interrupt() const {
    if (input_.interactive()) InterruptGuard::forget();
  }

  /// A message or a command. @return false for the command that ends the program
  bool follow(const std::string& text) {
    if (text.starts_with("//")) {
      answer(text.substr(1));
    } else if (text.starts_with("/")) {
      return command(text);
    } else if (text.find_first_not_of(" \t\n") != std::string::npos) {
      answer(text);
    }
    return true;
  }

  /// The next message or command, of one line or several.
  /// @return false at the end, and where a signal ends the program
  bool read(std::string& text) {
    text.clear();
    std::string line;
    for (;;) {
      forget_interrupt();
      switch (input_.read(text.empty() ? "> " : ". ", line)) {
        case LineReader::Line::kEnd: return !input_.interactive() && restore_backslash(text);
        case LineReader::Line::kInterrupted:
          if (!input_.interactive()) return false;
          if (text.empty() && line.empty()) note("Ctrl-D or /quit ends");
          text.clear();
          continue;
        case LineReader::Line::kText: break;
      }
      text += line;
      if (!text.ends_with('\\')) return true;
      text.back() = '\n';
    }
  }

  /// Where a line was to follow and none did, the message is what was written.
  /// @return whether there is one
  static bool restore_backslash(std::string& text) {
    if (text.empty()) return false;
    text.back() = '\\';
    return true;
  }

  /// What every conversation begins with is read while the user writes, and kept for all of them.
  void read_opening() {
    const auto opening = conversation_.opening();
    if (opening.empty() || opening.size() >= fd::idx(facts_.method.n_ctx)) return;
    session_.read(opening, options_);
    session_.keep();
  }

  void answer(const std::string& message) {
    try {
      // Else a message that is sent again, behind /undo, would be answered with the same draws.
      options_.sequence = static_cast<std::uint32_t>(answers_++) << 16;  // shifts count up from it
      forget_interrupt();
      Printer print;
      const auto prompt = conversation_.prompt(message);
      trace_.begin(prompt, options_);
      last_ = session_.generate(prompt, options_, [&](const fd::Emitted& token) { print(token); });
      print.finish();
      trace_.end(last_);
    } catch (const fd::Error& error) {
      if (error.code() == fd::ErrorCode::kIo) throw;  // no reader, or no disk for the trace
      return complain(error);
    }
    // Of an answer that was cancelled, what was written of it.
    conversation_.answered(session_.tokens());
    session_.keep();
    all_.add(last_);
    if (last_.finish_reason == fd::FinishReason::kContext) {
      note("the context of " + std::to_string(facts_.method.n_ctx) +
           " tokens is full: /reset begins anew, -c makes it larger, --context-shift goes on");
    }
    if (last_.finish_reason == fd::FinishReason::kCancelled) note("cancelled");
  }

  /// @return false for the one that ends the program
  bool command(const std::string& text) {
    std::istringstream words(text);
    std::string name, file;
    words >> name;
    // All that is left: names of files may hold blanks.
    std::getline(words >> std::ws, file);
    file.erase(file.find_last_not_of(" \t") + 1);
    const bool takes_file = name == "/save" || name == "/load";
    try {
      if (takes_file == file.empty()) {
        throw UsageError(takes_file ? name + " without a file" : "'" + text + "'",
                         takes_file ? name + " FILE" : name + " alone", "/help lists the commands");
      }
      if (name == "/quit" || name == "/exit") return false;
      if (name == "/help") {
        std::cerr << kHelp;
      } else if (name == "/reset") {
        session_.learn();
        conversation_.reset();
      } else if (name == "/undo") {
        if (!conversation_.undo()) throw UsageError("/undo", "a message to take back", "");
      } else if (name == "/stats") {
        std::cerr << stats();
      } else if (name == "/save") {
        save(file);
      } else if (name == "/load") {
        load(file);
      } else {
        throw UsageError("'" + name + "', which is no command", "a message or a command",
                         "/help lists the commands; // begins a message with /");
      }
    } catch (const fd::Error& error) {
      complain(error);
    }
    return true;
  }

  std::string stats() const {
    if (last_.stats.prompt_tokens == 0) return "no answer yet\n";
    const fd::Stats& s = last_.stats;
    // The anchor is read with the first round, as the decoder counts.
    std::string text = formatted(
        "context: %zu of %d tokens\nlast prompt: %lld tokens, %lld read, %lld reused\n",
        conversation_.tokens().size(), facts_.method.n_ctx, static_cast<long long>(s.prompt_tokens),
        static_cast<long long>(s.prompt_tokens - s.reused_tokens),
        static_cast<long long>(s.reused_tokens));
    text += formatted("last answer: %lld tokens, %.1f t/s, acceptance length %.2f\nall answers:\n",
                      static_cast<long long>(s.emitted), finite(s.tokens_per_second()),
                      s.acceptance_length());
    return text + all_.text(facts_);
  }

  void save(const std::string& file) {
    if (conversation_.tokens().empty()) throw UsageError("/save", "a conversation to save", "");
    if (!restore_session()) return note("cancelled: '" + visible(file) + "' was not written");
    std::ostringstream controller;
    if (facts_.method.speculation != kNone) {
      session_.controller_state().save(controller, vocabulary_);
    }
    files_.save(file, Note{conversation_.turns(), controller.str()}.bytes());
    note("saved '" + visible(file) + "'");
  }

  /// After /undo and /reset the session is elsewhere until the next message. @return false where a
  /// signal came before all was read
  bool restore_session() {
    if (std::ranges::equal(conversation_.tokens(), session_.tokens())) return true;
    return session_.read(conversation_.tokens(), options_).finish_reason !=
           fd::FinishReason::kCancelled;
  }

  void load(const std::string& file) {
    const Session::Loaded loaded = files_.load(file);
    Note note_of_file;
    try {
      note_of_file = Note::of(loaded.note);
    } catch (const fd::Error&) {  // --prompt-cache writes none
    }
    conversation_.restore(session_.tokens(), std::move(note_of_file.turns));
    session_.keep();
    // What drafts are worth; what they cost is known better here, or is another machine's. Not
    // behind answers, from which this controller has learned itself.
    if (loaded.drafters && answers_ == 0 && !note_of_file.controller.empty()) {
      std::istringstream in(note_of_file.controller);
      fd::ControllerState controller = fd::ControllerState::load(in, vocabulary_);
      controller.forget_costs();
      session_.restore(controller);
    }
    note("loaded " + std::to_string(conversation_.tokens().size()) + " tokens" +
         (loaded.drafters ? "" : "; the drafters are others and read them again"));
  }

  const RunFacts& facts_;
  Session& session_;
  TraceFile& trace_;
  Conversation conversation_;
  SnapshotFile files_;
  fd::VocabularyFingerprint vocabulary_;
  fd::Options options_;
  LineReader input_;
  fd::Result last_;
  Summary all_;
  int answers_ = 0;
  bool failed_ = false;
};

/// The turns, with what can be done about a model that has none.
fd::ChatTemplate turns_of(const fd::Tokenizer& tokenizer, const std::string& format) {
  try {
    return chat_template(tokenizer, format);
  } catch (const fd::Error& error) {
    throw fd::Error(error.code(), error.found(), error.expected(),
                    "name one with --chat-format, if it is a model to talk with");
  }
}

int run(ChatArguments& asked) {
  GenerateArguments& a = asked.generate;
  Method method = a.resolve();
  const ModelSettings settings = a.models(method);
  TraceFile trace(a.trace);
  Models models(settings);
  const fd::ChatTemplate chat = turns_of(models.target.tokenizer(), a.chat_format);
  Conversation conversation(models.target.tokenizer(), chat, asked.system);
  method.n_ctx = a.n_ctx > 0 ? a.n_ctx : default_context(models.target.config().n_ctx);
  method.ngrams = read_tables(a.lookup_static, a.lookup_dynamic, models.target.tokenizer());
  a.options.constraint = a.constraint.constraint(models.target.tokenizer(), &chat);
  a.more_sampling.complete(a.options, models.target.tokenizer());

  const auto session = make_session(models, method);
  const StateFile::Run what{settings.target, settings.draft, a.draft_load, a.maps_draft(), method};
  const LearnedFiles learned(a, models, what);
  learned.give_to(*session);
  models.print_note();
  trace.describe(models.target.tokenizer(), session->drafter_names());
  const RunFacts facts{a, method, models};
  int status = 0;
  // Before and behind the conversation Ctrl-C ends the program.
  {
    const InterruptGuard guard(InterruptGuard::Second::kToo);
    status = Chat(asked, facts, what, *session, std::move(conversation), trace).run();
  }
  learned.keep(*session);
  return status;
}

}  // namespace

void add_chat(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("chat",
                         "Talk with a model, speculatively unless told otherwise. Each line is a "
                         "message, or a command "
                         "such as /help; Ctrl-C ends an answer, Ctrl-D the program.");
  const auto a = std::make_shared<ChatArguments>();
  a->generate.add_to_chat(*command);
  add_value(*command, "--system-prompt TEXT", a->system,
            "what the model is told before the first message [what its chat format says]");
  add_number(*command, "--cache-ram MIB", a->store_mib, 0, 1 << 20,
             "memory for beginnings of conversations that need not be read again [1024]");
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace cli
