#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

namespace foredraft::inline v0 {

/// What a controller says of one drafter to people.
struct DrafterReport {
  /// Why it drafts nothing at present.
  enum class Parked : std::uint8_t {
    kNot,
    kDrafting,  ///< a draft would cost `ratio` times what it gains
    kRisk,      ///< ... or more than this text may lose
    kReading,   ///< drafts would gain, but not what reading the text costs
    kAsking,    ///< to ask it takes as long as its drafts save
    kFailing    ///< it threw the last time, or is a model that drafted nothing
  };

  std::int64_t asked = 0;
  double seconds = 0;
  std::int64_t verified = 0;  ///< tokens, of all texts of this controller
  std::int64_t accepted = 0;
  std::int64_t failures = 0;
  Parked parked = Parked::kNot;
  double ratio = 1;

  /// @return one line, without its end
  std::string text() const {
    const auto format = [](const char* pattern, auto... values) {
      std::array<char, 200> line{};
      std::snprintf(line.data(), line.size(), pattern, values...);
      return std::string(line.data());
    };
    // What %lld wants: std::int64_t may be another type.
    const auto n = [](std::int64_t count) { return static_cast<long long>(count); };
    std::string line = format("asked %lld times, %.3g ms in all; ", n(asked), 1e3 * seconds);
    if (verified == 0) {
      line += "no draft that was worth verifying";
    } else {
      line += format("%lld tokens verified, %lld accepted (%.0f %%)", n(verified), n(accepted),
                     100.0 * static_cast<double>(accepted) / static_cast<double>(verified));
    }
    if (failures > 0) line += format("; failed %lld times", n(failures));
    switch (parked) {
      case Parked::kNot: return line;
      case Parked::kDrafting:
        return line + format("; parked: drafting would cost %.2g times what it gains", ratio);
      case Parked::kRisk:
        return line + "; parked: drafting would cost more than this text may lose";
      case Parked::kReading:
        return line + "; parked: reading the text would cost more than drafts can save";
      case Parked::kAsking: return line + "; parked: to ask it takes as long as its drafts save";
      case Parked::kFailing: return line + "; parked: it threw, or drafted nothing, the last time";
    }
    return line;
  }
};

}  // namespace foredraft::inline v0
