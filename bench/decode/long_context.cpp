// What checking a draft costs behind long texts: passes of one row and of several, behind so many
// positions, with keys and values in f16 and in q8_0, in turns.
//
//   bench.long_context -m qwen2.5-coder-1.5b --positions 256,4096,16384
//
// The result is one JSON object. Nothing else may run meanwhile.

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <foredraft/backend/row_format.hpp>
#include <foredraft/model/load.hpp>

#include "../support/program.hpp"
#include "../support/summary.hpp"
#include "model_path.hpp"
#include "passes.hpp"

namespace {

namespace fd = foredraft;
using Json = nlohmann::ordered_json;

constexpr fd::RowFormat kFormats[] = {fd::RowFormat::kF16, fd::RowFormat::kQ8_0};

struct Arguments {
  std::string model;
  std::vector<int> positions{256, 4096, 16384};
  std::vector<int> rows{1, 8};
  int repetitions = 9;
  int threads = 0;
};

int run(Arguments a) {
  std::sort(a.positions.begin(), a.positions.end());
  fd::Cpu cpu{{.threads = a.threads}};
  const auto file = cli::find_model(a.model);
  bench::Model model = fd::load(cpu, file);
  std::vector<bench::Passes> texts;
  for (const fd::RowFormat format : kFormats) texts.emplace_back(model, a.positions.back(), format);

  // [position][format][rows]; turn 0 warms up.
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
             {"format", fd::name_of(kFormats[t])},
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
