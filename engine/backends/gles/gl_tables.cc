#include "engine/backends/gles/gl_tables.h"

#include <epoxy/gl.h>

#include <algorithm>
#include <utility>

#include "engine/backends/gles/gl_program.h"
#include "engine/image/sampling.h"

namespace preprocd {
namespace {

unsigned MakeTexture(GLenum format, int width, int height, GLenum pixel_format,
                     GLenum type, const void* texels) {
  unsigned texture = 0;
  glGenTextures(1, &texture);
  glActiveTexture(GL_TEXTURE0 + kScratchUnit);
  glBindTexture(GL_TEXTURE_2D, texture);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
  glTexStorage2D(GL_TEXTURE_2D, 1, format, width, height);
  glPixelStorei(GL_UNPACK_ALIGNMENT, 4);
  glPixelStorei(GL_UNPACK_ROW_LENGTH, 0);
  glBindBuffer(GL_PIXEL_UNPACK_BUFFER, 0);
  glTexSubImage2D(GL_TEXTURE_2D, 0, 0, 0, width, height, pixel_format, type,
                  texels);
  return texture;
}

template <typename Entry>
void DropOldest(std::vector<Entry>& entries) {
  const auto oldest = std::min_element(
      entries.begin(), entries.end(),
      [](const Entry& a, const Entry& b) { return a.used < b.used; });
  glDeleteTextures(1, &oldest->texture);
  entries.erase(oldest);
}

TapTable MakeTapTable(const TapsKey& key) {
  AxisTaps taps = ComputeTaps(key.filter, key.source_extent,
                              key.destination_extent, key.area_blends);
  const auto columns = static_cast<size_t>(key.destination_extent);
  const auto count = static_cast<size_t>(taps.count);
  const size_t rows = (count + 1 + 3) / 4;
  std::vector<float> texels(columns * rows * 4);
  const auto set = [&](size_t column, size_t n, double value) {
    texels[((n / 4) * columns + column) * 4 + n % 4] =
        static_cast<float>(value);
  };
  for (size_t d = 0; d < columns; ++d) {
    set(d, 0, taps.first[d]);
    for (size_t k = 0; k < count; ++k) {
      const double w = taps.weights[d * count + k];
      set(d, k + 1, key.rounded ? WeightBetweenAxes(w) : w);
    }
  }
  TapTable table;
  table.key = key;
  table.count = taps.count;
  table.first = std::move(taps.first);
  table.texture =
      MakeTexture(GL_RGBA32F, key.destination_extent, static_cast<int>(rows),
                  GL_RGBA, GL_FLOAT, texels.data());
  return table;
}

}  // namespace

const TapTable& GlTableCache::Taps(const TapsKey& key) {
  for (TapTable& table : taps_) {
    if (table.key == key) {
      table.used = ++clock_;
      return table;
    }
  }
  taps_.reserve(kMaxTapTables);  // entries stay where they are
  if (taps_.size() == kMaxTapTables) DropOldest(taps_);
  taps_.push_back(MakeTapTable(key));
  taps_.back().used = ++clock_;
  ++made_;
  return taps_.back();
}

const ElementTexture& GlTableCache::Elements(const GlElementStage& stage) {
  for (ElementTexture& table : elements_) {
    if (table.stage == stage) {
      table.used = ++clock_;
      return table;
    }
  }
  elements_.reserve(kMaxElementTables);
  if (elements_.size() == kMaxElementTables) DropOldest(elements_);
  ElementTexture table;
  table.stage = stage;
  table.bits = MakeElementBitsTable(stage);
  table.texture = MakeTexture(GL_R32UI, 256, 4, GL_RED_INTEGER, GL_UNSIGNED_INT,
                              table.bits.data());
  table.used = ++clock_;
  elements_.push_back(std::move(table));
  ++made_;
  return elements_.back();
}

}  // namespace preprocd
