// What checking a draft costs behind long texts: passes of one row and of several, behind so many
// positions, with keys and values in f16 and in q8_0, in turns.
//
//   bench.long_context -m qwen2.5-coder-1.5b --positions 256,4096,16384
//
// The result is one JSON object. Nothing else may run meanwhile.

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <foredraft/models.hpp>

#include "../support/program.hpp"
#include "../support/summary.hpp"
#include "model_path.hpp"
#include "passes.hpp"

namespace {

namespace fd = foredraft;
using Json = nlohmann::ordered_json;
using Rows = fd::LinearCache<fd::cpu::AnyRows>;

constexpr int kBlock = 512;  // rows that are staged at once

struct Arguments {
  std::string model;
  std::vector<int> positions{256, 4096, 16384};
  std::vector<int> rows{1, 8};
  int repetitions = 9;
  int threads = 0;
};

std::vector<fd::Node> chain(int n) {
  std::vector<fd::Node> nodes;
  for (int i = 0; i < n; ++i) nodes.push_back({100 + i * 37 % 1000, i - 1});
  return nodes;
}
std::vector<fd::NodeIndex> path(int n) {
  std::vector<fd::NodeIndex> nodes;
  for (int i = 0; i < n; ++i) nodes.push_back(i);
  return nodes;
}

/// A text whose keys and values are noise: what it says does not matter.
class Text {
 public:
  Text(bench::Model& model, fd::RowFormat format, int n)
      : model_(model), format_(format), cache_(shape(model, format), n + kBlock, kBlock) {
    std::mt19937 random(1);
    std::normal_distribution<float> noise(0.0f, 0.3f);
    while (cache_.size() < n) {
      const int count = std::min(n - cache_.size(), kBlock);
      cache_.stage(chain(count));
      const auto& layers = model.config().layers;
      for (int layer = 0; layer < static_cast<int>(layers.size()); ++layer) {
        const fd::AttentionShape& a = layers[static_cast<std::size_t>(layer)].attention;
        std::vector<float> row(static_cast<std::size_t>(a.d_head));
        for (int i = 0; i < count; ++i) {
          for (float& x : row) x = noise(random);
          for (int head = 0; head < a.n_kv_heads; ++head)
            cache_.layer(layer).put(head, cache_.size() + i, row, row);
        }
      }
      cache_.commit(path(count));
    }
  }

  fd::RowFormat format() const { return format_; }

  /// Check a draft behind `position` tokens, the best token of each row. @units seconds
  double verification(int rows, int position) {
    go_to(position);
    cache_.stage(chain(rows));
    fd::Request<Rows> request{&cache_, 0, rows, {fd::RowNeed::kArgmax, {}}, &scores_};
    const auto begin = bench::Clock::now();
    model_.forward(std::span(&request, 1));
    const double seconds = bench::seconds_since(begin);
    cache_.discard();
    return seconds;
  }

 private:
  static fd::CacheShape shape(bench::Model& model, fd::RowFormat format) {
    fd::CacheShape shape = model.shape();
    shape.formats = {format, format};
    return shape;
  }
  /// Rows stay as they are stored, whether the text reaches them or not.
  void go_to(int position) {
    cache_.truncate(position);
    while (cache_.size() < position) {
      const int count = std::min(position - cache_.size(), kBlock);
      cache_.stage(chain(count));
      cache_.commit(path(count));
    }
  }

  bench::Model& model_;
  fd::RowFormat format_;
  Rows cache_;
  fd::Scores scores_;
};

int run(Arguments a) {
  std::sort(a.positions.begin(), a.positions.end());
  fd::Cpu cpu{{.threads = a.threads}};
  const auto file = cli::find_model(a.model);
  bench::Model model = fd::load(cpu, file);
  std::vector<Text> texts;
  for (const fd::RowFormat format : {fd::RowFormat::kF16, fd::RowFormat::kQ8_0})
    texts.emplace_back(model, format, a.positions.back());

  // [position][text][rows]; turn 0 warms up.
  std::vector<std::vector<std::vector<std::vector<double>>>> seconds(
      a.positions.size(),
      std::vector(texts.size(), std::vector<std::vector<double>>(a.rows.size())));
  for (int turn = 0; turn <= a.repetitions; ++turn) {
    for (std::size_t p = 0; p < a.positions.size(); ++p) {
      for (std::size_t t = 0; t < texts.size(); ++t) {
        for (std::size_t r = 0; r < a.rows.size(); ++r) {
          const double one = texts[t].verification(a.rows[r], a.positions[p]);
          if (turn > 0) seconds[p][t][r].push_back(one);
        }
      }
    }
    std::fprintf(stderr, "turn %d of %d\n", turn, a.repetitions);
  }

  Json passes = Json::array();
  for (std::size_t p = 0; p < a.positions.size(); ++p) {
    for (std::size_t t = 0; t < texts.size(); ++t) {
      for (std::size_t r = 0; r < a.rows.size(); ++r) {
        passes.push_back(
            {{"positions", a.positions[p]},
             {"format", fd::name_of(texts[t].format())},
             {"rows", a.rows[r]},
             {"seconds", bench::summary(seconds[p][t][r])},
             {"of_first", bench::median(bench::ratios(seconds[p][t][r], seconds[p][t][0]))}});
      }
    }
  }
  const Json out{{"model", file.stem().string()},
                 {"isa", fd::cpu::name_of(cpu.isa())},
                 {"threads", cpu.threads()},
                 {"passes", passes}};
  std::cout << out.dump(1) << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app("Passes behind long texts, with keys and values in f16 and q8_0, as JSON.");
  app.add_option("-m,--model", a.model, "a file, or a name")->required();
  app.add_option("--positions", a.positions, "positions before them")
      ->delimiter(',')
      ->check(CLI::Range(16, 65536))
      ->capture_default_str();
  app.add_option("--rows", a.rows, "rows of the passes; the first is what others are compared with")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("-r,--repetitions", a.repetitions, "turns")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("-t,--threads", a.threads, "0: as many as the machine grants")
      ->capture_default_str();
  return bench::run_program(app, argc, argv, [&] { return run(a); });
}
