#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <foredraft/backend/cpu/isa.hpp>

#include "usage.hpp"

namespace cli {

/// Arguments in the order in which CLI11 wants them (last first), with the spellings of llama.cpp
/// that CLI11 cannot know, such as -md, replaced by the long ones.
std::vector<std::string> reversed_arguments(int argc, char** argv);

/// Help that names those spellings too.
std::shared_ptr<CLI::Formatter> help_formatter();

/// CLI11's complaint in the form of all errors.
UsageError usage_error(const CLI::ParseError& complaint, const CLI::App& app);

/// A whole number from `first` to `last`, in decimal: CLI11 checks it, too, but this error says
/// what was expected. @errors UsageError
CLI::Option* limit(CLI::Option* option, std::int64_t first, std::uint64_t last);
/// One of `names`. @errors UsageError
CLI::Option* limit(CLI::Option* option, const std::vector<std::string>& names);
/// Not the empty text, which would be taken for no such option. @errors UsageError
CLI::Option* require_text(CLI::Option* option);

/// App::add_option() with the name of the value behind those of the option: "-t,--threads N".
template <typename Value>
CLI::Option* add_value(CLI::App& app, const std::string& names, Value& value,
                       const std::string& about) {
  const std::size_t space = names.find(' ');
  return app.add_option(names.substr(0, space), value, about)->type_name(names.substr(space + 1));
}
template <typename Value>
void add_number(CLI::App& app, const std::string& names, Value& value, std::int64_t first,
                std::uint64_t last, const std::string& about) {
  limit(add_value(app, names, value, about), first, last);
}
template <typename Value>
void add_choice(CLI::App& app, const std::string& names, Value& value,
                const std::vector<std::string>& choices, const std::string& about) {
  limit(add_value(app, names, value, about), choices);
}

/// The file as it is, byte for byte. @errors kIo
std::string read_text_file(const std::string& file);

/// -f FILE for read_prompts(), which has to be given.
void add_prompts_option(CLI::App& app, std::string& file);

/// -p TEXT or -f FILE, exactly one of them.
class TextArgument {
 public:
  void add_to(CLI::App& app, const std::string& what);
  /// @errors UsageError where both or none were given, before anything is opened
  void check() const;
  /// The text as it is, byte for byte. @errors kIo
  std::string read() const;

 private:
  std::string text_;
  std::string file_;
  CLI::Option* text_option_ = nullptr;
  CLI::Option* file_option_ = nullptr;
};

/// Where models run, as --device spells it; the default first.
inline const std::vector<std::string> kDevices{"cpu", "cuda"};

/// -t, --isa and --keep-packed: how a model is loaded and run, whatever is done with it.
struct MachineArguments {
  int threads = 0;
  std::string isa_name;
  bool keep_packed = false;
  std::string device = kDevices[0];  ///< of the target

  void add_to(CLI::App& app);
  /// For commands whose target may be on a GPU.
  void add_device(CLI::App& app);
  bool on_gpu() const { return device != kDevices[0]; }
  /// Refuse what would have no effect on a GPU.
  /// @param others  another model runs on the processor. @errors UsageError
  void check_device(bool others = false) const;
  /// @errors UsageError where this machine cannot run it
  std::optional<fd::cpu::Isa> isa() const;
};

void add_model_option(CLI::App& app, std::string& model);
void add_json_flag(CLI::App& app, bool& json);

}  // namespace cli
