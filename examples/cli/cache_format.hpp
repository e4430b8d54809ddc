#pragma once

#include <string>
#include <vector>

#include <foredraft/backend/cpu/rows.hpp>
#include <foredraft/backend/row_format.hpp>
#include <foredraft/cache/hybrid.hpp>
#include <foredraft/core/types.hpp>

#include "usage.hpp"

namespace cli {

/// The cache of every model, target or draft: its formats are chosen when the program runs, so that
/// a model is compiled once for all of them. Linear in all layers of a model without windows, and
/// without states where none is recurrent.
using Cache = fd::HybridCache<fd::cpu::AnyRows>;

/// How keys and values may be stored, as --cache-type-k spells it; the default first.
inline const std::vector<std::string> kCacheFormats = {"f16", "f32", "bf16", "q8_0"};

/// The format of that name: options are held to the list.
inline fd::RowFormat cache_format_named(const std::string& name) {
  for (int i = 0; i < fd::kRowFormats; ++i) {
    const auto format = static_cast<fd::RowFormat>(i);
    if (fd::name_of(format) == name) return format;
  }
  return {};
}

/// "f16", or "q8_0/f16" where keys and values differ.
inline std::string spelled(fd::RowFormats formats) {
  const std::string keys(fd::name_of(formats.k));
  return formats.k == formats.v ? keys : keys + "/" + std::string(fd::name_of(formats.v));
}

/// The shape with the formats that its cache is to have.
inline fd::CacheShape with_formats(fd::CacheShape shape, fd::RowFormats formats) {
  shape.formats = formats;
  return shape;
}

/// The shape with the first positions that its layers with a window are to read besides.
inline fd::CacheShape with_sinks(fd::CacheShape shape, int sinks) {
  shape.sinks = sinks;
  return shape;
}

}  // namespace cli
