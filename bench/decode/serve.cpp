// Forward passes on request, for scripts that let engines take turns: one line in, one line out.
//
//   info              {"isa": ..., "threads": ..., weights and their bytes}
//   pass M TIMES      {"tokens_per_second": median of TIMES passes of M tokens into an empty cache}
//   decode N          {"tokens_per_second": N tokens one by one}
//   stream            {"bytes_per_second": a plain read of memory with all threads}

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "../micro/peaks.hpp"
#include "../support/program.hpp"
#include "../support/summary.hpp"
#include "model_path.hpp"
#include "passes.hpp"

namespace {

namespace fd = foredraft;
using Json = nlohmann::ordered_json;

int run(const std::string& name, int threads) {
  fd::Cpu cpu{{.threads = threads}};
  const fd::Gguf file = fd::Gguf::open(cli::find_model(name));
  bench::Model model = fd::load(cpu, file);
  bench::Passes passes(model, 1024);
  bench::StreamRead stream(cpu);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    int n = 1;
    int times = 1;
    words >> verb >> n >> times;
    Json answer;
    if (verb == "info") {
      const auto bytes = bench::weight_bytes(file);
      answer = {{"isa", fd::cpu::name_of(cpu.isa())},
                {"threads", cpu.threads()},
                {"weight_bytes", bytes.packed},
                {"weight_bytes_in_file", bytes.in_file},
                {"weights", bytes.values}};
    } else if (verb == "pass" && n > 0 && n <= 1024 && times > 0) {
      std::vector<double> rates;
      for (int i = 0; i < times; ++i) rates.push_back(n / passes.prompt(n));
      answer = {{"tokens_per_second", bench::median(rates)}};
    } else if (verb == "decode" && n > 0 && n <= 1024) {
      answer = {{"tokens_per_second", n / passes.decoding(n)}};
    } else if (verb == "stream") {
      answer = {{"bytes_per_second", stream.bytes_per_second()}};
    } else {
      answer = {{"error", "not understood: " + line}};
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string model;
  int threads = 0;
  CLI::App app("Forward passes on request: lines `pass M TIMES`, `decode N`, `stream`, `info`.");
  app.add_option("-m,--model", model, "a file, or a name")->required();
  app.add_option("-t,--threads", threads, "0: as many as the machine grants");
  return bench::run_program(app, argc, argv, [&] { return run(model, threads); });
}
