#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "output.hpp"

namespace cli {

struct BenchTest {
  bool decodes = false;  ///< tgN, else ppN
  int n = 0;
  std::vector<double> rates;  ///< @units tokens a second, one for each repetition

  std::string name() const { return (decodes ? "tg" : "pp") + std::to_string(n); }
  double mean() const;
  double median() const;
  /// Of a single measurement from the mean; 0 where there is only one.
  double deviation() const;
};

struct BenchReport {
  std::string cpu;
  int cores = 0;  ///< processors of the machine, granted or not
  int threads = 0;
  std::string isa;
  std::string model;
  std::uint64_t model_bytes = 0;  ///< of the file
  std::string family;
  std::vector<BenchTest> tests;

  std::string table() const;
  std::string csv() const;
  Json json() const;
};

}  // namespace cli
