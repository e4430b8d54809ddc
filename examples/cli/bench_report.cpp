#include "bench_report.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "terminal.hpp"

namespace cli {

namespace {

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

/// In the JSON alone: tables of this kind, llama.cpp's too, show mean and deviation.
double BenchTest::median() const {
  std::vector<double> sorted = rates;
  std::sort(sorted.begin(), sorted.end());
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

double BenchTest::deviation() const {
  if (rates.size() < 2) return 0;
  double sum = 0;
  for (const double rate : rates) sum += (rate - mean()) * (rate - mean());
  // One less than there are: the mean was taken from the same measurements.
  return std::sqrt(sum / static_cast<double>(rates.size() - 1));
}

std::string BenchReport::table() const {
  std::string out = cpu + ", foredraft " + version() + "\n\n" +
                    "| model | size | isa | threads | test | t/s |\n" +
                    "| --- | ---: | --- | ---: | ---: | ---: |\n";
  for (const BenchTest& test : tests) {
    out += "| " + visible(model) + " | " + readable_bytes(static_cast<double>(model_bytes)) +
           " | " + isa + " | " + std::to_string(threads) + " | " + test.name() +
           formatted(" | %.2f ± %.2f |\n", test.mean(), test.deviation());
  }
  return out;
}

std::string BenchReport::csv() const {
  std::string out = "cpu,version,model,model_bytes,isa,threads,test,n,tokens_per_second,stddev\n";
  for (const BenchTest& test : tests) {
    out += field(cpu) + "," + version() + "," + field(model) + "," + std::to_string(model_bytes) +
           "," + field(isa) + "," + std::to_string(threads) + "," + test.name() +
           formatted(",%d,%.4f,%.4f\n", test.n, test.mean(), test.deviation());
  }
  return out;
}

Json BenchReport::json() const {
  Json results = Json::array();
  for (const BenchTest& test : tests) {
    results.push_back(Json::object({{"test", test.name()},
                                    {"n", test.n},
                                    {"tokens_per_second", finite(test.mean())},
                                    {"stddev", finite(test.deviation())},
                                    {"median", finite(test.median())},
                                    {"repetitions", test.rates}}));
  }
  return Json::object({{"machine",
                        {{"cpu", cpu},
                         {"cores", cores},
                         {"threads", threads},
                         {"isa", isa},
                         {"foredraft", version()}}},
                       {"model", {{"name", model}, {"bytes", model_bytes}, {"family", family}}},
                       {"results", results}});
}

}  // namespace cli
