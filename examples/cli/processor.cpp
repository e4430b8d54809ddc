#include "processor.hpp"

#include <cstddef>
#include <fstream>

#include "terminal.hpp"

namespace cli {

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return visible(line.substr(colon + 2));
    }
  }
  return "unknown";
}

}  // namespace cli
