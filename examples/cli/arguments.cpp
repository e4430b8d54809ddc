#include "arguments.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <foredraft/backend/cpu/thread_pool.hpp>
#include <foredraft/core/error.hpp>

namespace cli {

namespace {

/// CLI11 takes -md for the flags -m and -d, and so on.
constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
    {"-md", "--model-draft"},           {"-ctk", "--cache-type-k"},
    {"-ctv", "--cache-type-v"},         {"-ctkd", "--cache-type-k-draft"},
    {"-ctvd", "--cache-type-v-draft"},  {"-lcs", "--lookup-cache-static"},
    {"-lcd", "--lookup-cache-dynamic"}, {"-sys", "--system-prompt"},
};

/// Names that llama.cpp has given up, and those that it has now.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"--draft", "--spec-draft-n-max"},
    {"--draft-n", "--spec-draft-n-max"},
    {"--draft-max", "--spec-draft-n-max"},
};

/// The text in lines of at most `width` characters, where its words allow that.
std::string wrapped(const std::string& text, std::size_t width) {
  std::istringstream words(text);
  std::string out;
  std::size_t column = 0;
  for (std::string word; words >> word; column += word.size()) {
    const bool fits = column + 1 + word.size() <= width;
    if (column > 0) out += fits ? ' ' : '\n';
    column = column > 0 && fits ? column + 1 : 0;
    out += word;
  }
  return out;
}

class Formatter : public CLI::Formatter {
 public:
  Formatter() { column_width(kColumn); }

  /// Behind llama.cpp's short name, where it has one.
  std::string make_option_name(const CLI::Option* option, bool positional) const override {
    std::string name = CLI::Formatter::make_option_name(option, positional);
    for (const auto& [theirs, ours] : kSpellings) {
      if (name == ours) name = std::string(theirs) + "," + name;
    }
    return name;
  }

  /// What the value is. CLI11 would add what it checks, which the description says in words.
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_size() == 0 ? "" : option->get_type_name();
    return type.empty() ? "" : " " + type.substr(0, type.find(':'));
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(option->get_description(), kWidth - kColumn);
  }

  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description(), kWidth) + "\n\n";
  }

  std::string make_footer(const CLI::App* app) const override {
    const std::string footer = app->get_footer();
    return footer.empty() ? footer : wrapped(footer, kWidth) + "\n";
  }

  /// In the list of commands, the first sentence of each description.
  std::string make_subcommand(const CLI::App* sub) const override {
    const std::string text = sub->get_description() + " ";
    std::string name = "  " + sub->get_name();
    name.resize(kColumn / 2, ' ');
    return name + text.substr(0, text.find(". ")) + "\n";
  }

 private:
  static constexpr std::size_t kColumn = 32;
  static constexpr std::size_t kWidth = 100;
};

std::string joined(const std::vector<std::string>& names, const std::string& between) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : between) + name;
  return list;
}

/// Another program's option such as -ngl, which CLI11 would take for -n with the value "gl".
/// Behind an option there may stand its value, whatever it looks like.
void refuse_foreign_option(std::string_view argument, std::string_view before) {
  // The short options with a number: behind -p or -m any text is a value.
  constexpr std::string_view kWithNumber = "cnrst";  // no number begins with a letter
  const bool foreign = argument.size() > 2 && argument[0] == '-' &&
                       kWithNumber.find(argument[1]) != std::string_view::npos &&
                       std::isalpha(static_cast<unsigned char>(argument[2])) != 0;
  if (!foreign || before.starts_with('-')) return;
  throw UsageError(std::string(argument), "one letter behind a dash, or a word behind two",
                   "foredraft COMMAND --help lists the options");
}

/// A hint, where one of the arguments is an old name of an option that the command has.
std::optional<std::string> renamed(const std::vector<std::string>& arguments,
                                   const CLI::App& command) {
  for (const std::string& argument : arguments) {
    for (const auto& [before, now] : kRenamed) {
      if (argument.substr(0, argument.find('=')) == before &&
          command.get_option_no_throw(std::string(now)) != nullptr) {
        return std::string(before) + " is " + std::string(now) + " now";
      }
    }
  }
  return std::nullopt;
}

/// Everything that is left in `in`. A device or pipe without an end is refused before memory ends.
std::string contents(std::istream& in, const std::string& name) {
  constexpr std::size_t kMostMiB = 256;  // no context holds as much
  std::string text;
  char part[1 << 16];
  while (in.read(part, sizeof part), in.gcount() > 0) {
    text.append(part, static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMostMiB << 20)
      throw fd::Error(fd::ErrorCode::kIo, name + ": more than " + std::to_string(kMostMiB) + " MiB",
                      "a text of at most as much", "is it a text file?");
  }
  return text;
}

}  // namespace

std::vector<std::string> reversed_arguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {
    std::string argument = argv[i];
    const std::size_t end = std::min(argument.find('='), argument.size());  // of -md=FILE
    for (const auto& [theirs, ours] : kSpellings) {
      if (argument.substr(0, end) == theirs) argument = std::string(ours) + argument.substr(end);
    }
    refuse_foreign_option(argument, argv[i - 1]);
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

std::shared_ptr<CLI::Formatter> help_formatter() { return std::make_shared<Formatter>(); }

UsageError usage_error(const CLI::ParseError& complaint, const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  const std::string program = app.get_name();
  const std::string command = chosen.empty() ? program : program + " " + chosen[0]->get_name();
  const std::string hint = command + " --help";
  const std::vector<std::string> left = app.remaining(true);
  // Whatever CLI11 complains about then, what is missing is a command.
  if (chosen.empty()) {
    std::vector<std::string> names;
    // An empty filter lets all pass that were added; without it, only what was chosen comes.
    for (const CLI::App* known : app.get_subcommands({})) names.push_back(known->get_name());
    return {left.empty() ? "no command" : "'" + left.front() + "', which is no command",
            "one of " + joined(names, ", "), hint};
  }
  const std::string what = complaint.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&complaint) != nullptr) {
    return {"'" + joined(left, " ") + "', which it does not take", "the options of " + command,
            renamed(left, *chosen[0]).value_or(hint)};
  }
  if (dynamic_cast<const CLI::RequiredError*>(&complaint) != nullptr) {
    return {"incomplete arguments: " + what, "all that is required", hint};
  }
  if (dynamic_cast<const CLI::ConversionError*>(&complaint) != nullptr) {
    const std::size_t colon = what.find(": ");  // "Could not convert: --temp = warm"
    return {colon == std::string::npos ? what : what.substr(colon + 2), "a number", hint};
  }
  return {what, "each option once, with its value", hint};
}

CLI::Option* limit(CLI::Option* option, std::int64_t first, std::uint64_t last) {
  return option->transform([name = option->get_name(), first, last](const std::string& text) {
    const auto read = [&text](auto& value) {
      const char* const end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), end, value);
      return error == std::errc() && stop == end;
    };
    // Two types: limits reach from below 0 up to 2^64 - 1.
    std::uint64_t natural = 0;
    std::int64_t negative = 0;
    // Without leading zeros: CLI11 would take 010 for 8.
    if (read(natural)) {
      if (natural <= last && std::cmp_greater_equal(natural, first)) return std::to_string(natural);
    } else if (read(negative) && negative >= first) {
      return std::to_string(negative);
    }
    throw UsageError(name + " " + text,
                     "a whole number from " + std::to_string(first) + " to " + std::to_string(last),
                     "--help says what it means");
  });
}

CLI::Option* limit(CLI::Option* option, const std::vector<std::string>& names) {
  return option->check([name = option->get_name(), names](const std::string& text) {
    if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
    throw UsageError(name + " " + text, "one of " + joined(names, ", "),
                     "--help says what they mean");
  });
}

CLI::Option* require_text(CLI::Option* option) {
  return option->check([name = option->get_name()](const std::string& text) {
    if (!text.empty()) return std::string();
    throw UsageError(name + " with an empty name", "a name", "leave the option out");
  });
}

std::string read_text_file(const std::string& file) {
  const auto refuse = [&file](const std::string& why) {
    throw fd::Error(fd::ErrorCode::kIo, "'" + file + "': " + why, "a text file that can be read",
                    "check the path; - is the standard input where a prompt is read");
  };
  // A stream opens a folder without complaint and then reads nothing from it.
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) refuse("a folder");
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) refuse(errno != 0 ? std::strerror(errno) : "cannot be opened");
  std::string text = contents(in, "'" + file + "'");
  if (in.bad()) refuse("cannot be read");
  return text;
}

void add_prompts_option(CLI::App& app, std::string& file) {
  require_text(add_value(app, "-f,--file FILE", file,
                         "prompts: paragraphs with empty lines between; or NAME.jsonl, one object "
                         "with a field \"prompt\" a line"))
      ->required();
}

void TextArgument::add_to(CLI::App& app, const std::string& what) {
  text_option_ = add_value(app, "-p,--prompt TEXT", text_, what);
  file_option_ = add_value(app, "-f,--file FILE", file_,
                           "read it from a file, byte for byte; - is the standard input");
}

void TextArgument::check() const {
  // Counted and not looked at, because an empty text is one that was given.
  const bool text = text_option_->count() > 0;
  const bool file = file_option_->count() > 0;
  if (text && file) throw UsageError("both -p and -f", "one of them", "give the text once");
  if (!text && !file)
    throw UsageError("no text", "-p TEXT or -f FILE", "-f - reads the standard input");
}

std::string TextArgument::read() const {
  if (text_option_->count() > 0) return text_;
  if (file_ != "-") return read_text_file(file_);
  std::string text = contents(std::cin, "the standard input");
  if (std::cin.bad() || std::ferror(stdin) != 0) {  // it shares the buffer of C
    throw fd::Error(fd::ErrorCode::kIo, "the standard input cannot be read", "text",
                    "is it closed, or a folder?");
  }
  return text;
}

void MachineArguments::add_to(CLI::App& app) {
  add_number(app, "-t,--threads N", threads, 0, fd::cpu::ThreadPool::kMaxThreads,
             "threads; 0: as many as this machine grants [0]");
  std::vector<std::string> names;
  for (const fd::cpu::Isa isa : fd::cpu::kAllIsas) names.emplace_back(fd::cpu::name_of(isa));
  add_choice(app, "--isa NAME", isa_name, names,
             "instruction set: " + joined(names, ", ") + " [the widest there is]");
  app.add_flag(
      "--keep-packed", keep_packed,
      "keep the weights as they lie in memory in a file beside the model, MODEL.packed, or "
      "in the user's cache where that folder cannot be written, and map it at the next "
      "start; it is checked, and made anew where it does not fit the model. Not for a "
      "draft model that --quantize-draft or --draft-vocab changes");
}

void MachineArguments::add_device(CLI::App& app) {
  add_choice(app, "--device NAME", device, kDevices,
             "where the model runs: cpu, or cuda, the NVIDIA GPU that is current, for a program "
             "that was built with CUDA [" +
                 kDevices[0] + "]");
}

void MachineArguments::check_device(bool others) const {
  if (!on_gpu()) return;
  const auto refuse = [&](const std::string& what, const char* expected) {
    throw UsageError(what + " with --device " + device, expected, "leave one of them out");
  };
  if (!isa_name.empty()) refuse("--isa", "an instruction set where a processor runs the model");
  if (keep_packed) refuse("--keep-packed", "weights in the processor's memory");
  if (threads > 0 && !others) refuse("-t", "a model that the processor runs");
}

std::optional<fd::cpu::Isa> MachineArguments::isa() const {
  if (isa_name.empty()) return std::nullopt;
  std::vector<std::string> possible;
  for (const fd::cpu::Isa isa : fd::cpu::executable_isas()) {
    if (fd::cpu::name_of(isa) == isa_name) return isa;
    possible.emplace_back(fd::cpu::name_of(isa));
  }
  throw UsageError("--isa " + isa_name + ", which this machine cannot run",
                   "one of " + joined(possible, ", "), "without --isa it takes the widest");
}

void add_model_option(CLI::App& app, std::string& model) {
  add_value(app, "-m,--model FILE|NAME", model, "GGUF file, or the name of a fetched model")
      ->required();
}

void add_json_flag(CLI::App& app, bool& json) {
  app.add_flag("--json", json, "print one JSON object and nothing else on stdout");
}

}  // namespace cli
