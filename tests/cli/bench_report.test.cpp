#include "bench_report.hpp"

#include <string>

#include "support/catch.hpp"

TEST_CASE("names are quoted in a table of commas, whatever they hold") {
  const cli::BenchReport report{.cpu = "a \"fast\" one, 2 cores",
                                .threads = 1,
                                .isa = "cuda, NVIDIA H200",
                                .model = "a, b",
                                .model_bytes = 7,
                                .family = "llama",
                                .tests = {{.decodes = false, .n = 4, .rates = {2.0}}}};
  const std::string csv = report.csv();
  CHECK(csv.substr(csv.find('\n') + 1) == "\"a \"\"fast\"\" one, 2 cores\"," + cli::version() +
                                              ",\"a, b\",7,\"cuda, NVIDIA H200\",1,pp4,4,"
                                              "2.0000,0.0000\n");
}
