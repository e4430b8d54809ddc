#include "backend/cpu/emulated_tiles.hpp"

#include <cstring>

namespace amx_under_test {

namespace {

constexpr int kTiles = 8;      // palette 1: max_names
constexpr int kMaxRows = 16;   // max_rows
constexpr int kRowBytes = 64;  // bytes_per_row

bool fault_if(bool wrong, const char* what) noexcept {
  auto& record = EmulatedUnit::record();
  if (wrong && record.faults++ == 0) record.first_fault = what;
  return wrong;
}

bool makes(Mistake mistake) noexcept { return EmulatedUnit::record().mistake == mistake; }

std::int32_t extend(std::uint8_t byte, bool is_signed) noexcept {
  return is_signed ? static_cast<std::int8_t>(byte) : byte;
}

}  // namespace

EmulatedUnit::Record& EmulatedUnit::record() noexcept {
  static Record record;
  return record;
}

EmulatedUnit::~EmulatedUnit() { fault_if(config_.palette != 0, "never released"); }

void EmulatedUnit::configure(const void* config) noexcept {
  foredraft::cpu::AmxConfig next;
  std::memcpy(&next, config, sizeof next);
  if (fault_if(next.palette > 1, "#GP: no such palette")) return;
  for (const auto byte : next.reserved) {
    if (fault_if(byte != 0, "#GP: reserved byte")) return;
  }
  if (next.palette == 1) {
    for (int t = 0; t < 16; ++t) {
      const int rows = next.rows[t], bytes = next.row_bytes[t];
      if (fault_if(t >= kTiles && (rows != 0 || bytes != 0), "#GP: no such tile")) return;
      if (fault_if(rows > kMaxRows || bytes > kRowBytes, "#GP: tile too large")) return;
      if (fault_if((rows == 0) != (bytes == 0), "#GP: tile of one extent")) return;
    }
  }
  record().configured += (next.palette != 0) - (config_.palette != 0);
  config_ = next;
  std::memset(data_, 0, sizeof data_);
}

void EmulatedUnit::release() noexcept {
  record().configured -= config_.palette != 0;
  config_ = {.palette = 0};
  std::memset(data_, 0, sizeof data_);
}

bool EmulatedUnit::usable(int tile) noexcept {
  if (fault_if(config_.palette == 0, "#UD: tiles are not configured")) return false;
  if (fault_if(tile < 0 || tile >= kTiles, "#UD: no such tile")) return false;
  return !fault_if(config_.rows[tile] == 0, "#UD: this tile is not configured");
}

void EmulatedUnit::zero(int tile) noexcept {
  if (fault_if(config_.palette == 0, "#UD: tiles are not configured")) return;
  if (makes(Mistake::kSumsKept)) return;
  std::memset(data_[tile], 0, sizeof data_[tile]);
}

void EmulatedUnit::load(int tile, const void* from, std::size_t stride) noexcept {
  if (!usable(tile)) return;
  const int rows = config_.rows[tile];
  const std::size_t bytes = config_.row_bytes[tile];
  for (int m = 0; m < rows; ++m) {
    // write_row_and_zero
    std::memcpy(data_[tile][m],
                static_cast<const char*>(from) + static_cast<std::size_t>(m) * stride, bytes);
    std::memset(data_[tile][m] + bytes, 0, kRowBytes - bytes);
  }
  // zero_upper_rows
  for (int m = rows; m < kMaxRows; ++m) std::memset(data_[tile][m], 0, kRowBytes);

  const bool activations = tile == 4 || tile == 5;  // as AmxMatmul uses them
  if (activations && makes(Mistake::kActivationsLate)) {
    for (int m = 0; m < rows; ++m) {
      std::uint8_t first[4];
      std::memcpy(first, data_[tile][m], 4);
      std::memmove(data_[tile][m], data_[tile][m] + 4, bytes - 4);
      std::memcpy(data_[tile][m] + bytes - 4, first, 4);
    }
  }
  if (activations ? makes(Mistake::kRowsShifted) : makes(Mistake::kWeightsLate)) {
    std::uint8_t first[kRowBytes];
    std::memcpy(first, data_[tile][0], kRowBytes);
    std::memmove(data_[tile][0], data_[tile][1], static_cast<std::size_t>(rows - 1) * kRowBytes);
    std::memcpy(data_[tile][rows - 1], first, kRowBytes);
  }
}

void EmulatedUnit::store(int tile, void* to, std::size_t stride) noexcept {
  if (!usable(tile)) return;
  const int rows = config_.rows[tile] - makes(Mistake::kRowNotStored);
  for (int m = 0; m < rows; ++m) {
    std::memcpy(static_cast<char*>(to) + static_cast<std::size_t>(m) * stride, data_[tile][m],
                config_.row_bytes[tile]);
  }
}

void EmulatedUnit::dot(int c, int a, int b, bool a_signed, bool b_signed) noexcept {
  if (!usable(c) || !usable(a) || !usable(b)) return;
  ++record().dots;
  if (fault_if(c == a || c == b || a == b, "#UD: the same tile twice")) return;
  const int bytes = config_.row_bytes[c];
  if (fault_if(bytes % 4 != 0 || config_.row_bytes[a] % 4 != 0 || config_.row_bytes[b] % 4 != 0,
               "#UD: not a multiple of 4 bytes"))
    return;
  if (fault_if(config_.rows[c] != config_.rows[a], "#UD: rows of c and a")) return;
  if (fault_if(config_.row_bytes[a] / 4 != config_.rows[b], "#UD: columns of a, rows of b")) return;
  if (fault_if(bytes != config_.row_bytes[b], "#UD: columns of c and b")) return;
  if (makes(Mistake::kOtherSign)) b_signed = !b_signed;
  const int units = config_.row_bytes[a] / 4 - makes(Mistake::kLastUnitMissing);
  for (int m = 0; m < config_.rows[c]; ++m) {
    std::uint32_t sums[kRowBytes / 4];  // they wrap
    std::memcpy(sums, data_[c][m], kRowBytes);
    for (int k = 0; k < units; ++k) {
      for (int n = 0; n < bytes / 4; ++n) {
        for (int i = 0; i < 4; ++i) {
          sums[n] += static_cast<std::uint32_t>(extend(data_[a][m][4 * k + i], a_signed) *
                                                extend(data_[b][k][4 * n + i], b_signed));
        }
      }
    }
    // write_row_and_zero
    std::memcpy(data_[c][m], sums, static_cast<std::size_t>(bytes));
    std::memset(data_[c][m] + bytes, 0, static_cast<std::size_t>(kRowBytes - bytes));
  }
  // zero_upper_rows
  for (int m = config_.rows[c]; m < kMaxRows; ++m) std::memset(data_[c][m], 0, kRowBytes);
}

}  // namespace amx_under_test
