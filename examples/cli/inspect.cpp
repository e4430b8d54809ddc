#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include <foredraft/core/error.hpp>
#include <foredraft/io/gguf.hpp>
#include <foredraft/model/config.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "inspect_parts.hpp"
#include "memory.hpp"
#include "model_path.hpp"
#include "output.hpp"
#include "terminal.hpp"

namespace cli {

namespace {

struct Arguments {
  std::string model;
  int n_ctx = 0;
  bool json = false;
};

/// One with attention, where there is one: these are alike in what is shown of them.
const fd::LayerShape& typical_layer(const fd::ModelConfig& c) {
  const auto found = std::ranges::find_if(c.layers, &fd::LayerShape::attends);
  return found == c.layers.end() ? c.layers.front() : *found;
}

/// Of the first feed-forward part; 0 where no layer has one.
int d_ff_of(const fd::ModelConfig& c) {
  const auto found = std::ranges::find_if(
      c.layers, [](const fd::LayerShape& layer) { return layer.feed_forward.d_ff > 0; });
  return found == c.layers.end() ? 0 : int{found->feed_forward.d_ff};
}

std::string shape_of(const fd::ModelConfig& c) {
  const fd::AttentionShape& attention = typical_layer(c).attention;
  const auto n_recurrent = c.cache_shape().states.size();
  std::string shape = std::to_string(c.layers.size()) + " layers";
  if (n_recurrent > 0) shape += " (" + std::to_string(n_recurrent) + " recurrent)";
  shape += ", d_model " + std::to_string(c.d_model);
  if (attention.n_heads > 0) {
    shape += ", " + std::to_string(attention.n_heads) + " heads of " +
             std::to_string(attention.d_head) + " (" + std::to_string(attention.n_kv_heads) +
             " for keys and values)";
  }
  const int d_ff = d_ff_of(c);
  return d_ff > 0 ? shape + ", d_ff " + std::to_string(d_ff) : shape;
}

Json to_json(const Findings& found, const fd::Gguf& file) {
  Json object = Json::object({{"file", found.path.string()},
                              {"file_bytes", file.file_size()},
                              {"gguf_version", file.version()},
                              {"family", found.family},
                              {"name", found.name},
                              {"parameters", found.parameters},
                              {"runs", found.runs()},
                              {"why_not", found.why_not.empty() ? Json() : Json(found.why_not)},
                              {"dimensions", Json()},
                              {"memory", Json()}});
  if (found.survey) {
    const fd::ModelConfig& c = found.survey->config;
    const fd::AttentionShape& attention = typical_layer(c).attention;
    object["dimensions"] = {{"n_vocab", int{c.n_vocab}},
                            {"n_ctx", int{c.n_ctx}},
                            {"n_layers", c.layers.size()},
                            {"n_recurrent_layers", c.cache_shape().states.size()},
                            {"n_heads", int{attention.n_heads}},
                            {"n_kv_heads", int{attention.n_kv_heads}},
                            {"d_model", int{c.d_model}},
                            {"d_head", int{attention.d_head}},
                            {"d_ff", d_ff_of(c)}};
    object["memory"] = {{"n_ctx", found.n_ctx},
                        {"weights", found.survey->weight_bytes},
                        {"cache", static_cast<std::uint64_t>(found.cache_bytes())},
                        {"total", static_cast<std::uint64_t>(found.total_bytes())}};
  }
  object["tokenizer"] = found.tokenizer ? tokenizer_to_json(*found.tokenizer) : Json();
  object["chat_format"] = found.chat_format.empty() ? Json() : Json(found.chat_format);
  object["metadata"] = metadata_to_json(file);
  object["tensors"] = tensors_to_json(file);
  return object;
}

std::string line(const std::string& label, const std::string& text) {
  return label + std::string(13 - label.size(), ' ') + text + "\n";
}

std::string overview(const Findings& found, const fd::Gguf& file) {
  std::string out = line("file", visible(found.path.string()) + ", " +
                                     readable_bytes(static_cast<double>(file.file_size())) +
                                     ", GGUF version " + std::to_string(file.version()));
  out += line("model", (found.name.empty() ? "no name" : excerpt(found.name, 80)) + ", family " +
                           (found.family.empty() ? "unknown" : excerpt(found.family, 40)));
  out += line("parameters", readable_count(static_cast<double>(found.parameters)) + " in " +
                                std::to_string(file.tensors().size()) + " tensors (" +
                                types_in_use(file) + ")");
  out += line("runs", found.runs() ? "yes" : "no: " + visible(found.why_not));
  if (found.survey) {
    const fd::ModelConfig& c = found.survey->config;
    out += line("shape", shape_of(c));
    out += line("context", std::to_string(c.n_ctx) + " tokens in training");
    out += line("memory", readable_bytes(found.total_bytes()) + ": weights " +
                              readable_bytes(static_cast<double>(found.survey->weight_bytes)) +
                              ", cache " + readable_bytes(found.cache_bytes()) + " for " +
                              std::to_string(found.n_ctx) + " tokens, buffers; available are " +
                              readable_bytes(available_memory()));
  } else {
    out += line("memory", "not known: no model can be made of it");
  }
  if (found.tokenizer) out += line("tokenizer", describe(*found.tokenizer));
  out += line("chat format", found.chat_format.empty() ? "none known: use --chat-format or --raw"
                                                       : found.chat_format);
  return out;
}

int run(const Arguments& a) {
  const auto path = find_model(a.model);
  const fd::Gguf file = fd::Gguf::open(path);
  // A file that does not run is shown as well, with the reason, and that is no failure.
  const Findings found = examine(path, file, a.n_ctx);
  if (a.json) {
    print_json(to_json(found, file));
  } else {
    write_out(overview(found, file) + metadata_table(file) + tensor_table(file));
  }
  return 0;
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "inspect", "Show what a GGUF file holds, whether it runs, and the memory it takes.");
  const auto a = std::make_shared<Arguments>();
  add_value(*command, "-m,--model,model FILE|NAME", a->model,
            "GGUF file, or the name of a fetched model")
      ->required();
  add_number(*command, "-c,--ctx-size N", a->n_ctx, 1, std::numeric_limits<int>::max(),
             "context for the memory estimate [4096 at most]");
  add_json_flag(*command, a->json);
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace cli
