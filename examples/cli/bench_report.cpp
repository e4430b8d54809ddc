#include "bench_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "terminal.hpp"

namespace cli {

namespace {

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// A field in quotes, as RFC 4180 has it.
std::string field(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

double BenchTest::mean() const {
  return std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(rates.size());
}

double BenchTest::median() const {
  std::vector<double> sorted = rates;
  std::sort(sorted.begin(), sorted.end());
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

double BenchTest::deviation() const {
  if (rates.size() < 2) return 0;
  double sum = 0;
  for (const double rate : rates) sum += (rate - mean()) * (rate - mean());
  return std::sqrt(sum / static_cast<double>(rates.size() - 1));
}

std::string bench_table(const BenchMachine& machine, const BenchModel& model,
                        const std::vector<BenchTest>& tests) {
  std::string out = machine.cpu + ", foredraft " + machine.version + "\n\n" +
                    "| model | size | isa | threads | test | t/s |\n" +
                    "| --- | ---: | --- | ---: | ---: | ---: |\n";
  for (const BenchTest& test : tests) {
    out += "| " + visible(model.name) + " | " + readable_bytes(static_cast<double>(model.bytes)) +
           " | " + machine.isa + " | " + std::to_string(machine.threads) + " | " + test.name() +
           " | " + number("%.2f", test.mean()) + " ± " + number("%.2f", test.deviation()) + " |\n";
  }
  return out;
}

std::string bench_csv(const BenchMachine& machine, const BenchModel& model,
                      const std::vector<BenchTest>& tests) {
  std::string out = "cpu,version,model,model_bytes,isa,threads,test,n,tokens_per_second,stddev\n";
  for (const BenchTest& test : tests) {
    out += field(machine.cpu) + "," + machine.version + "," + field(model.name) + "," +
           std::to_string(model.bytes) + "," + machine.isa + "," + std::to_string(machine.threads) +
           "," + test.name() + "," + std::to_string(test.n) + "," + number("%.4f", test.mean()) +
           "," + number("%.4f", test.deviation()) + "\n";
  }
  return out;
}

Json bench_json(const BenchMachine& machine, const BenchModel& model,
                const std::vector<BenchTest>& tests) {
  Json results = Json::array();
  for (const BenchTest& test : tests) {
    results.push_back(Json::object({{"test", test.name()},
                                    {"n", test.n},
                                    {"tokens_per_second", finite(test.mean())},
                                    {"stddev", finite(test.deviation())},
                                    {"median", finite(test.median())},
                                    {"repetitions", test.rates}}));
  }
  return Json::object(
      {{"machine",
        {{"cpu", machine.cpu},
         {"cores", machine.cores},
         {"threads", machine.threads},
         {"isa", machine.isa},
         {"foredraft", machine.version}}},
       {"model", {{"name", model.name}, {"bytes", model.bytes}, {"family", model.family}}},
       {"results", results}});
}

}  // namespace cli
