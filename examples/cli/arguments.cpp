#include "arguments.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <foredraft/core/error.hpp>

namespace cli {

namespace {

/// CLI11 takes -md for the flags -m and -d.
constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
    {"-md", "--model-draft"},
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

std::string contents(std::istream& in) {
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

std::vector<std::string> reversed_arguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {
    std::string argument = argv[i];
    for (const auto& [theirs, ours] : kSpellings) {
      if (argument == theirs) argument = ours;
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

std::shared_ptr<CLI::Formatter> help_formatter() { return std::make_shared<Formatter>(); }

std::string read_text_file(const std::string& file) {
  const auto refuse = [&file](const std::string& why) {
    throw fd::Error(fd::ErrorCode::kIo, "'" + file + "': " + why, "a text file that can be read");
  };
  // A stream opens a folder without complaint and then reads nothing from it.
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) refuse("a folder");
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) refuse(errno != 0 ? std::strerror(errno) : "cannot be opened");
  std::string text = contents(in);
  if (in.bad()) refuse("cannot be read");
  return text;
}

void TextArgument::add_to(CLI::App& app, const std::string& what) {
  text_option_ = app.add_option("-p,--prompt", text_, what)->type_name("TEXT");
  file_option_ = app.add_option("-f,--file", file_,
                                "read it from a file, byte for byte; - is the standard input")
                     ->type_name("FILE");
}

void TextArgument::check() const {
  const bool text = text_option_->count() > 0;
  const bool file = file_option_->count() > 0;
  if (text && file) throw UsageError("both -p and -f", "give the text once");
  if (!text && !file) throw UsageError("no text", "give it with -p TEXT or -f FILE");
}

std::string TextArgument::read() const {
  if (text_option_->count() > 0) return text_;
  return file_ == "-" ? contents(std::cin) : read_text_file(file_);
}

void MachineArguments::add_to(CLI::App& app) {
  app.add_option("-t,--threads", threads, "threads; 0: as many as this machine grants [0]")
      ->check(CLI::Range(0, 4096))
      ->type_name("N");
  std::vector<std::string> names;
  std::string list;
  for (const fd::cpu::Isa isa :
       {fd::cpu::Isa::kPortable, fd::cpu::Isa::kAvx2, fd::cpu::Isa::kAvx512,
        fd::cpu::Isa::kAvx512Vnni, fd::cpu::Isa::kAmx}) {
    names.emplace_back(fd::cpu::name_of(isa));
    list += (list.empty() ? "" : ", ") + names.back();
  }
  app.add_option("--isa", isa_name, "instruction set: " + list + " [the widest there is]")
      ->check(CLI::IsMember(names))
      ->type_name("NAME");
}

std::optional<fd::cpu::Isa> MachineArguments::isa() const {
  if (isa_name.empty()) return std::nullopt;
  std::string possible;
  for (const fd::cpu::Isa isa : fd::cpu::executable_isas()) {
    if (fd::cpu::name_of(isa) == isa_name) return isa;
    possible += (possible.empty() ? "" : ", ") + std::string(fd::cpu::name_of(isa));
  }
  throw UsageError("--isa " + isa_name + ", which this machine cannot run", "it runs " + possible);
}

void add_model_option(CLI::App& app, std::string& model) {
  app.add_option("-m,--model", model, "GGUF file, or the name of a fetched model")
      ->type_name("FILE|NAME")
      ->required();
}

void add_json_flag(CLI::App& app, bool& json) {
  app.add_flag("--json", json, "print one JSON object and nothing else on stdout");
}

}  // namespace cli
