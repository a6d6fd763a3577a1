#include "engine/image/geometry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "engine/base/error_detail.h"
#include "engine/image/orientation.h"

namespace preprocd {
namespace {

Rect Letterbox(Size source, Size destination, LetterboxRule rule) {
  const auto placement = ComputePlacement(source, destination, Fit::kLetterbox,
                                          rule, std::nullopt);
  EXPECT_TRUE(placement.ok()) << placement.status();
  return placement->destination;
}

TEST(LetterboxTest, CenterRuleExamples) {
  const struct {
    Size source, destination;
    Rect placed;
  } cases[] = {
      {{1280, 720}, {640, 640}, {0, 140, 640, 360}},
      {{1920, 1080}, {640, 640}, {0, 140, 640, 360}},
      {{3840, 2160}, {640, 640}, {0, 140, 640, 360}},
      {{1919, 1079}, {640, 640}, {0, 140, 640, 360}},
      {{720, 1280}, {640, 640}, {140, 0, 360, 640}},
      {{640, 480}, {640, 640}, {0, 80, 640, 480}},
      {{500, 375}, {640, 640}, {0, 80, 640, 480}},
      {{1000, 333}, {640, 640}, {0, 213, 640, 213}},
      {{100, 1000}, {640, 640}, {288, 0, 64, 640}},
      {{3, 10000}, {640, 640}, {319, 0, 1, 640}},
      {{1920, 1080}, {640, 480}, {0, 60, 640, 360}},
      {{1080, 1920}, {416, 416}, {91, 0, 234, 416}},
      {{64, 64}, {640, 640}, {0, 0, 640, 640}},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Letterbox(c.source, c.destination, LetterboxRule::kCenter),
              c.placed)
        << c.source.width << "x" << c.source.height;
  }
}

TEST(LetterboxTest, UltralyticsRuleExamples) {
  // r = min(dw/sw, dh/sh); sides round half to even; the odd remainder goes
  // right and below.
  EXPECT_EQ(Letterbox({1920, 1080}, {640, 640}, LetterboxRule::kUltralytics),
            (Rect{0, 140, 640, 360}));
  EXPECT_EQ(Letterbox({1000, 333}, {640, 640}, LetterboxRule::kUltralytics),
            (Rect{0, 213, 640, 213}));
  // 641 * 0.5 = 320.5 rounds to the even 320 here, to 321 by rule center.
  EXPECT_EQ(Letterbox({641, 1282}, {641, 641}, LetterboxRule::kUltralytics),
            (Rect{160, 0, 320, 641}));
  EXPECT_EQ(Letterbox({641, 1282}, {641, 641}, LetterboxRule::kCenter),
            (Rect{160, 0, 321, 641}));
}

// The recipe step by step, with the C library's own rounding to even.
TEST(LetterboxTest, UltralyticsRuleEqualsTheRecipe) {
  for (const Size destination : {Size{640, 640}, {641, 384}, {37, 90}}) {
    for (int w = 3; w < 2000; w += 17) {
      for (int h = 5; h < 2000; h += 29) {
        const double r =
            std::min(1.0 * destination.height / h, 1.0 * destination.width / w);
        const double new_w = std::nearbyint(w * r);
        const double new_h = std::nearbyint(h * r);
        if (new_w < 1 || new_h < 1) continue;  // the recipe fails there
        const double dw = (destination.width - new_w) / 2;
        const double dh = (destination.height - new_h) / 2;
        const Rect got =
            Letterbox({w, h}, destination, LetterboxRule::kUltralytics);
        ASSERT_EQ(got.width, new_w) << w << "x" << h;
        ASSERT_EQ(got.height, new_h) << w << "x" << h;
        ASSERT_EQ(got.x, std::nearbyint(dw - .1)) << w << "x" << h;
        ASSERT_EQ(got.y, std::nearbyint(dh - .1)) << w << "x" << h;
        // Right and bottom pads complete the destination.
        ASSERT_EQ(got.x + new_w + std::nearbyint(dw + .1), destination.width);
        ASSERT_EQ(got.y + new_h + std::nearbyint(dh + .1), destination.height);
      }
    }
  }
}

// Halves that round differently: 5 x 0.5 = 2.5.
TEST(LetterboxTest, RulesDifferAtHalves) {
  EXPECT_EQ(Letterbox({5, 10}, {5, 5}, LetterboxRule::kUltralytics),
            (Rect{1, 0, 2, 5}));
  EXPECT_EQ(Letterbox({5, 10}, {5, 5}, LetterboxRule::kCenter),
            (Rect{1, 0, 3, 5}));
  EXPECT_EQ(Letterbox({10, 5}, {5, 5}, LetterboxRule::kUltralytics),
            (Rect{0, 1, 5, 2}));
}

TEST(LetterboxTest, ASliverKeepsOnePixel) {
  for (const auto rule : {LetterboxRule::kCenter, LetterboxRule::kUltralytics,
                          LetterboxRule::kTopLeft}) {
    EXPECT_EQ(Letterbox({1, 16384}, {64, 64}, rule).width, 1);
    EXPECT_EQ(Letterbox({16384, 1}, {64, 64}, rule).height, 1);
  }
}

TEST(LetterboxTest, TopLeftRuleHasTheSidesOfCenter) {
  EXPECT_EQ(Letterbox({1920, 1080}, {640, 640}, LetterboxRule::kTopLeft),
            (Rect{0, 0, 640, 360}));
  EXPECT_EQ(Letterbox({5, 10}, {5, 5}, LetterboxRule::kTopLeft),
            (Rect{0, 0, 3, 5}));
}

TEST(LetterboxTest, PlacementIsAlwaysInsideTheDestination) {
  for (int w = 1; w <= 40; ++w) {
    for (int h = 1; h <= 40; ++h) {
      for (const auto rule :
           {LetterboxRule::kCenter, LetterboxRule::kUltralytics,
            LetterboxRule::kTopLeft}) {
        const Rect r = Letterbox({w, h}, {17, 29}, rule);
        EXPECT_TRUE(ValidateRectInside(r, {17, 29}, "r").ok()) << w << "x" << h;
        EXPECT_TRUE(r.width == 17 || r.height == 29);
      }
    }
  }
}

TEST(CoverTest, ShowsTheLargestCentredPart) {
  const auto placement =
      ComputePlacement({1920, 1080}, {640, 640}, Fit::kCover,
                       LetterboxRule::kUnspecified, std::nullopt);
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ(placement->destination, (Rect{0, 0, 640, 640}));
  EXPECT_EQ(placement->shown, (Rect{420, 0, 1080, 1080}));
}

TEST(CoverTest, IsCentredInsideAndSpansOneAxis) {
  for (int w = 1; w <= 60; w += 3) {
    for (int h = 1; h <= 60; h += 4) {
      for (const Size destination : {Size{17, 29}, {40, 40}, {64, 3}}) {
        const auto placement =
            ComputePlacement({w, h}, destination, Fit::kCover,
                             LetterboxRule::kUnspecified, std::nullopt);
        ASSERT_TRUE(placement.ok());
        EXPECT_EQ(placement->destination.size(), destination);
        const Rect& shown = placement->shown;
        ASSERT_TRUE(ValidateRectInside(shown, {w, h}, "shown").ok());
        EXPECT_TRUE(shown.width == w || shown.height == h);
        EXPECT_EQ(shown.x, (w - shown.width) / 2);
        EXPECT_EQ(shown.y, (h - shown.height) / 2);
        // The cut side is the exact one, rounded: off by half a pixel at most.
        const double exact_w =
            std::min(1.0 * w, 1.0 * h * destination.width / destination.height);
        const double exact_h =
            std::min(1.0 * h, 1.0 * w * destination.height / destination.width);
        EXPECT_LE(std::abs(shown.width - std::max(1.0, exact_w)), .5 + 1e-9);
        EXPECT_LE(std::abs(shown.height - std::max(1.0, exact_h)), .5 + 1e-9);
      }
    }
  }
}

TEST(CoverTest, HalvesRoundAwayAndOffsetsDown) {
  const auto shown = [](Size source, Size destination) {
    return ComputePlacement(source, destination, Fit::kCover,
                            LetterboxRule::kUnspecified, std::nullopt)
        ->shown;
  };
  EXPECT_EQ(shown({5, 5}, {2, 1}), (Rect{0, 1, 5, 3}));  // 2.5 -> 3
  EXPECT_EQ(shown({5, 5}, {1, 2}), (Rect{1, 0, 3, 5}));
  EXPECT_EQ(shown({6, 3}, {1, 1}), (Rect{1, 0, 3, 3}));  // rest 3: left 1
  EXPECT_EQ(shown({9, 9}, {3, 3}), (Rect{0, 0, 9, 9}));
}

TEST(StretchTest, FillsTheDestinationWithEverything) {
  for (const Fit fit : {Fit::kStretch, Fit::kUnspecified}) {
    const auto placement =
        ComputePlacement({7, 5}, {64, 3}, fit, LetterboxRule::kCenter,
                         Rect{1, 1, 1, 1});  // used by kPlace only
    ASSERT_TRUE(placement.ok());
    EXPECT_EQ(placement->destination, (Rect{0, 0, 64, 3}));
    EXPECT_EQ(placement->shown, (Rect{0, 0, 7, 5}));
  }
}

TEST(PlacementTest, EmptySizesAreRefusedWithTheirField) {
  const auto field = [](Size source, Size destination) {
    const auto placement =
        ComputePlacement(source, destination, Fit::kLetterbox,
                         LetterboxRule::kCenter, std::nullopt);
    return GetErrorDetail(placement.status()).value_or(ErrorDetail{}).field;
  };
  EXPECT_EQ(field({0, 5}, {5, 5}), "source");
  EXPECT_EQ(field({5, -1}, {5, 5}), "source");
  EXPECT_EQ(field({5, 5}, {5, 0}), "destination");
}

TEST(PlaceTest, NeedsARectangleInside) {
  const auto place = [](std::optional<Rect> rect) {
    return ComputePlacement({10, 10}, {64, 64}, Fit::kPlace,
                            LetterboxRule::kUnspecified, rect);
  };
  EXPECT_EQ(place(Rect{3, 4, 5, 6})->destination, (Rect{3, 4, 5, 6}));
  EXPECT_EQ(GetErrorDetail(place(std::nullopt).status())->field, "place");
  EXPECT_FALSE(place(Rect{60, 0, 5, 5}).ok());
  EXPECT_FALSE(place(Rect{0, 0, 0, 5}).ok());
}

TEST(RectTest, NeverClampedAndOverflowSafe) {
  const int max = std::numeric_limits<int>::max();
  const Size bounds = {100, 50};
  EXPECT_TRUE(ValidateRectInside({0, 0, 100, 50}, bounds, "r").ok());
  for (const Rect& bad :
       {Rect{0, 0, 101, 50}, Rect{-1, 0, 5, 5}, Rect{0, 0, 0, 1},
        Rect{max, 0, max, 1}, Rect{1, 1, max, max}, Rect{0, 0, -5, 5}}) {
    const absl::Status status = ValidateRectInside(bad, bounds, "r");
    EXPECT_EQ(GetErrorDetail(status)->reason, ErrorReason::kGeometryInvalid);
    EXPECT_EQ(GetErrorDetail(status)->field, "r");
  }
}

TEST(NamesTest, RoundTrip) {
  for (const char* name : {"stretch", "letterbox", "cover", "place"}) {
    EXPECT_EQ(FitName(*ParseFit(name)), name);
  }
  for (const char* name : {"center", "ultralytics", "topleft"}) {
    EXPECT_EQ(LetterboxRuleName(*ParseLetterboxRule(name)), name);
  }
  EXPECT_EQ(ParseFit("fill"), std::nullopt);
}

TEST(AffineMapTest, InvertIsTheInverse) {
  const AffineMap map = {2, 0.5, 3, -1, 4, 5};
  const AffineMap inverse = Invert(map);
  const double x = 7, y = -2;
  const double u = map.xx * x + map.xy * y + map.x0;
  const double v = map.yx * x + map.yy * y + map.y0;
  EXPECT_NEAR(inverse.xx * u + inverse.xy * v + inverse.x0, x, 1e-12);
  EXPECT_NEAR(inverse.yx * u + inverse.yy * v + inverse.y0, y, 1e-12);
}

TEST(OrientationTest, MapsAreBijectionsOntoTheStoredPixels) {
  const Size size = {4, 3};
  for (int value = 1; value <= 8; ++value) {
    const Orientation o = *OrientationFromExif(value);
    const Size upright = OrientedSize(o, size);
    const OrientationMap m = GetOrientationMap(o, size);
    std::set<std::pair<int, int>> seen;
    for (int y = 0; y < upright.height; ++y) {
      for (int x = 0; x < upright.width; ++x) {
        const int sx = m.xx * x + m.xy * y + m.x0;
        const int sy = m.yx * x + m.yy * y + m.y0;
        EXPECT_TRUE(sx >= 0 && sx < 4 && sy >= 0 && sy < 3);
        seen.insert({sx, sy});
      }
    }
    EXPECT_EQ(seen.size(), 12u) << value;
  }
}

TEST(OrientationTest, FlipThenRotateClockwise) {
  const Size size = {4, 3};
  // Built from the definition: mirror, then that many clockwise quarters.
  const struct {
    int value;
    bool mirror;
    int quarters;
  } cases[] = {{1, false, 0}, {2, true, 0},  {3, false, 2}, {4, true, 2},
               {5, true, 3},  {6, false, 1}, {7, true, 1},  {8, false, 3}};
  for (const auto& c : cases) {
    const OrientationMap m =
        GetOrientationMap(*OrientationFromExif(c.value), size);
    for (int sy = 0; sy < size.height; ++sy) {
      for (int sx = 0; sx < size.width; ++sx) {
        int x = c.mirror ? size.width - 1 - sx : sx;
        int y = sy;
        int w = size.width;
        int h = size.height;
        for (int q = 0; q < c.quarters; ++q) {
          const int turned_x = h - 1 - y;
          y = x;
          x = turned_x;
          std::swap(w, h);
        }
        EXPECT_EQ(m.xx * x + m.xy * y + m.x0, sx) << c.value;
        EXPECT_EQ(m.yx * x + m.yy * y + m.y0, sy) << c.value;
      }
    }
  }
  EXPECT_EQ(OrientationFromExif(0), std::nullopt);
  EXPECT_EQ(OrientationFromExif(9), std::nullopt);
}

}  // namespace
}  // namespace preprocd
