// Masks and drawings through the service: what is written, what is refused
// before anything is.
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/service/service.h"
#include "daemon/service/service_fixture.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

using absl::StatusCode;

constexpr char kFill = '\x5a';
constexpr int kGrid = 8;
constexpr int kChannels = 3;

std::string Bytes(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(float));
}

v1::TensorRef Tensor(const std::string& bytes, std::vector<int64_t> shape,
                     v1::DataType dtype = v1::DATA_TYPE_F32) {
  v1::TensorRef tensor;
  tensor.set_inline_bytes(bytes);
  for (const int64_t size : shape) tensor.add_shape(size);
  tensor.set_dtype(dtype);
  return tensor;
}

// Plane 0 rises with x, plane 1 with y, plane 2 is 1 everywhere.
float Prototype(int k, int y, int x) {
  if (k == 0) return static_cast<float>(x) - 3.5f;
  if (k == 1) return static_cast<float>(y) - 3.5f;
  return 1;
}

v1::TensorRef Prototypes(bool channels_first) {
  std::vector<float> values;
  const int outer = channels_first ? kChannels : kGrid;
  for (int a = 0; a < outer; ++a) {
    for (int b = 0; b < kGrid; ++b) {
      const int inner = channels_first ? kGrid : kChannels;
      for (int c = 0; c < inner; ++c) {
        values.push_back(channels_first ? Prototype(a, b, c)
                                        : Prototype(c, a, b));
      }
    }
  }
  if (channels_first) {
    return Tensor(Bytes(values), {kChannels, kGrid, kGrid});
  }
  return Tensor(Bytes(values), {kGrid, kGrid, kChannels});
}

void PlaceIn(uint64_t id, v1::BufferRef& ref) {
  ref.set_buffer_id(id);
  ref.set_generation(1);
}

void AddBox(float x0, float y0, float x1, float y1,
            v1::MaterializeMasksRequest& request) {
  v1::Detection* box = request.add_boxes();
  box->set_x0(x0);
  box->set_y0(y0);
  box->set_x1(x1);
  box->set_y1(y1);
}

// Two objects: the right half, and everything below the diagonal's sum.
v1::MaterializeMasksRequest Request(bool channels_first = false) {
  v1::MaterializeMasksRequest request;
  *request.mutable_prototypes() = Prototypes(channels_first);
  request.set_prototypes_chw(channels_first);
  *request.mutable_coefficients() =
      Tensor(Bytes({1, 0, 0, 1, 1, 0.5f}), {2, kChannels});
  AddBox(0, 0, 1, 1, request);
  AddBox(0.25f, 0.25f, 0.75f, 1, request);
  request.mutable_destination()->set_inline_(v1::INLINE_ENCODING_RAW);
  return request;
}

bool IsSet(int object, int x, int y) {
  const float dx = Prototype(0, y, x);
  const float dy = Prototype(1, y, x);
  return object == 0 ? dx > 0 : dx + dy + 0.5f > 0;
}

class MaskTest : public ServiceTest {
 protected:
  absl::Status Materialize(const v1::MaterializeMasksRequest& request,
                           v1::MaterializeMasksReply* reply) {
    return Await([&](Done done) {
      service_.MaterializeMasks(Call(), request, reply, std::move(done));
    });
  }
  absl::Status Draw(const v1::DrawMasksRequest& request,
                    v1::DrawMasksReply* reply) {
    return DrawAs(Call(), request, reply);
  }
  absl::Status DrawAs(const CallContext& call,
                      const v1::DrawMasksRequest& request,
                      v1::DrawMasksReply* reply) {
    return Await([&](Done done) {
      service_.DrawMasks(call, request, reply, std::move(done));
    });
  }
  absl::Status SetPalette(const CallContext& call,
                          const std::vector<std::array<uint32_t, 4>>& colors,
                          v1::SetPaletteReply* reply) {
    v1::SetPaletteRequest request;
    for (const auto& [r, g, b, a] : colors) {
      v1::Color* color = request.add_colors();
      color->set_r(r);
      color->set_g(g);
      color->set_b(b);
      color->set_a(a);
    }
    return service_.SetPalette(call, request, reply);
  }

  // Both masks at the prototypes' size.
  void ExpectMasks(const v1::MaterializeMasksRequest& request) {
    v1::MaterializeMasksReply reply;
    const absl::Status status = Materialize(request, &reply);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(reply.masks_size(), 2);
    EXPECT_EQ(reply.size_bytes(), reply.inline_bytes().size());
    EXPECT_EQ(reply.report().backend(), "cpu");
    for (int i = 0; i < 2; ++i) {
      const v1::Mask& mask = reply.masks(i);
      const v1::Rect& box = mask.bounds();
      size_t at = mask.offset_bytes();
      for (int y = box.y(); y < box.y() + box.height(); ++y) {
        for (int x = box.x(); x < box.x() + box.width(); ++x) {
          ASSERT_EQ(reply.inline_bytes()[at++] != 0, IsSet(i, x, y))
              << i << " " << x << "," << y;
        }
      }
    }
  }

 private:
  template <typename Start>
  absl::Status Await(Start start) {
    absl::Status result;
    Gate finished;
    start([&](absl::Status status) {
      result = std::move(status);
      finished.Open();
    });
    finished.Wait();
    return result;
  }
};

TEST_F(MaskTest, MasksOfBothLayouts) {
  ExpectMasks(Request(/*channels_first=*/false));
  ExpectMasks(Request(/*channels_first=*/true));
}

TEST_F(MaskTest, TensorsAndMasksInRegisteredBuffers) {
  v1::MaterializeMasksRequest request = Request();
  const std::string prototypes = request.prototypes().inline_bytes();
  const std::string coefficients = request.coefficients().inline_bytes();
  ASSERT_TRUE(
      Register(1, MemfdWith(std::string(64, 0) + prototypes, Seals::kSize))
          .ok());
  ASSERT_TRUE(Register(2, MemfdWith(coefficients, Seals::kNone)).ok());
  const int out =
      RegisterKept(3, MemfdWith(std::string(4096, kFill), Seals::kSize));
  PlaceIn(1, *request.mutable_prototypes()->mutable_buffer());
  request.mutable_prototypes()->mutable_buffer()->set_offset_bytes(64);
  PlaceIn(2, *request.mutable_coefficients()->mutable_buffer());
  *request.mutable_destination() = BufferDestination(3);
  request.mutable_destination()->mutable_buffer()->set_offset_bytes(100);
  v1::MaterializeMasksReply reply;
  const absl::Status status = Materialize(request, &reply);
  ASSERT_TRUE(status.ok()) << status;
  const std::string memory = ReadMemfd(out, 4096);
  EXPECT_EQ(memory.substr(0, 100), std::string(100, kFill));
  const size_t end = 100 + reply.size_bytes();
  EXPECT_EQ(memory.substr(end), std::string(4096 - end, kFill));
  for (int y = 0; y < kGrid; ++y) {
    for (int x = 0; x < kGrid; ++x) {
      EXPECT_EQ(memory[100 + static_cast<size_t>(y * kGrid + x)] != 0,
                IsSet(0, x, y));
    }
  }
  // A memfd that can shrink is read, and the reply says so.
  EXPECT_GT(reply.report().bytes_copied(), 0u);
  EXPECT_GT(reply.report().warnings_size(), 0);
}

TEST_F(MaskTest, BadRequestsNameTheirFieldAndWriteNothing) {
  const int out =
      RegisterKept(3, MemfdWith(std::string(4096, kFill), Seals::kSize));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  struct Case {
    void (*spoil)(v1::MaterializeMasksRequest&, float nan);
    ErrorReason reason;
    const char* field;
  };
  const Case cases[] = {
      {[](v1::MaterializeMasksRequest& r, float) {
         r.mutable_prototypes()->clear_shape();
       },
       ErrorReason::kGeometryInvalid, "prototypes.shape"},
      {[](v1::MaterializeMasksRequest& r, float) {
         r.mutable_prototypes()->add_shape(1);
       },
       ErrorReason::kGeometryInvalid, "prototypes.shape"},
      {[](v1::MaterializeMasksRequest& r, float) {
         r.mutable_coefficients()->set_shape(1, kChannels + 1);
       },
       ErrorReason::kGeometryInvalid, "coefficients.shape"},
      {[](v1::MaterializeMasksRequest& r, float) { AddBox(0, 0, 1, 1, r); },
       ErrorReason::kFieldInvalid, "boxes"},
      {[](v1::MaterializeMasksRequest& r, float n) {
         r.mutable_boxes(1)->set_y1(n);
       },
       ErrorReason::kFieldInvalid, "boxes[1].y1"},
      {[](v1::MaterializeMasksRequest& r, float) {
         r.mutable_boxes(0)->set_x0(-0.01f);
       },
       ErrorReason::kFieldInvalid, "boxes[0].x0"},
      {[](v1::MaterializeMasksRequest& r, float) {
         r.mutable_destination()->mutable_buffer()->set_offset_bytes(4096 - 64);
       },
       ErrorReason::kBufferTooSmall, "destination.buffer"},
      {[](v1::MaterializeMasksRequest& r, float) {
         r.mutable_prototypes()->set_dtype(v1::DATA_TYPE_I8);
       },
       ErrorReason::kFieldInvalid, "prototypes.scales"},
      {[](v1::MaterializeMasksRequest& r, float) {
         r.mutable_size()->set_width(0);
       },
       ErrorReason::kGeometryInvalid, "size"},
      {[](v1::MaterializeMasksRequest& r, float) {
         r.mutable_content()->set_width(4);
       },
       ErrorReason::kFieldInvalid, "content"},
  };
  for (const Case& c : cases) {
    v1::MaterializeMasksRequest request = Request();
    *request.mutable_destination() = BufferDestination(3);
    c.spoil(request, nan);
    v1::MaterializeMasksReply reply;
    SCOPED_TRACE(c.field);
    ExpectError(Materialize(request, &reply), StatusCode::kInvalidArgument,
                c.reason, c.field);
  }
  EXPECT_EQ(ReadMemfd(out, 4096), std::string(4096, kFill));
}

// One object that covers the whole 4x4 picture.
v1::DrawMasksRequest SolidDrawing() {
  v1::DrawMasksRequest request;
  request.mutable_masks()->Clear();
  *request.mutable_masks()->mutable_prototypes() =
      Tensor(Bytes({1, 1, 1, 1}), {2, 2, 1});
  *request.mutable_masks()->mutable_coefficients() = Tensor(Bytes({1}), {1, 1});
  AddBox(0, 0, 1, 1, *request.mutable_masks());
  request.mutable_destination()->set_inline_(v1::INLINE_ENCODING_RAW);
  *request.mutable_destination()->mutable_layout() =
      MakeLayout(v1::PIXEL_FORMAT_RGB, 4, 4);
  return request;
}

TEST_F(MaskTest, ThePaletteIsTheSessionsUntilTheRequestHasOne) {
  v1::DrawMasksRequest request = SolidDrawing();
  const auto drawn = [&](const CallContext& call) {
    v1::DrawMasksReply reply;
    const absl::Status status = DrawAs(call, request, &reply);
    EXPECT_TRUE(status.ok()) << status;
    return reply.inline_bytes().substr(0, 3);
  };
  const std::string default_green("\x00\xb3\x00", 3);
  EXPECT_EQ(drawn(Call()), default_green);
  v1::SetPaletteReply set;
  ASSERT_TRUE(SetPalette(Call(), {{10, 20, 30, 255}}, &set).ok());
  ASSERT_EQ(set.colors_size(), 1);
  EXPECT_EQ(drawn(Call()), std::string("\x0a\x14\x1e"));
  // Other sessions keep theirs.
  EXPECT_EQ(drawn(CallOf(other_session_)), default_green);
  v1::Color* own = request.add_palette();
  own->set_r(7);
  own->set_g(8);
  own->set_b(9);
  own->set_a(255);
  EXPECT_EQ(drawn(Call()), std::string("\x07\x08\x09"));
  request.clear_palette();
  ASSERT_TRUE(SetPalette(Call(), {}, &(set = v1::SetPaletteReply())).ok());
  EXPECT_EQ(set.colors_size(), 20);
  EXPECT_EQ(drawn(Call()), default_green);
}

TEST_F(MaskTest, BadPalettesAreRefusedAndChangeNothing) {
  v1::SetPaletteReply reply;
  ASSERT_TRUE(SetPalette(Call(), {{10, 20, 30, 255}}, &reply).ok());
  ExpectError(SetPalette(Call(), {{1, 2, 3, 4}, {1, 2, 256, 4}}, &reply),
              StatusCode::kInvalidArgument, ErrorReason::kFieldInvalid,
              "colors[1]");
  ExpectError(
      SetPalette(Call(), std::vector<std::array<uint32_t, 4>>(257), &reply),
      StatusCode::kInvalidArgument, ErrorReason::kTooLarge, "colors");
  ExpectError(SetPalette(AnonymousCall(), {{1, 2, 3, 4}}, &reply),
              StatusCode::kUnauthenticated, ErrorReason::kSessionUnknown);
  v1::DrawMasksReply drawn;
  ASSERT_TRUE(Draw(SolidDrawing(), &drawn).ok());
  EXPECT_EQ(drawn.inline_bytes().substr(0, 3), std::string("\x0a\x14\x1e"));
}

// The contract of the output: completely written, whatever there is to draw.
TEST_F(MaskTest, TheDestinationIsCompletelyWritten) {
  const std::string below = GradientRgb(4, 4);
  for (const bool background : {false, true}) {
    for (const bool masks : {false, true}) {
      const int out =
          RegisterKept(background * 2 + masks + 10,
                       MemfdWith(std::string(48, kFill), Seals::kSize));
      v1::DrawMasksRequest request = SolidDrawing();
      if (!masks) request.clear_masks();
      request.set_opacity(0.5f);
      if (background) {
        *request.mutable_background() = InlineSource(below);
        *request.mutable_background()->mutable_layout() =
            MakeLayout(v1::PIXEL_FORMAT_RGB, 4, 4);
      }
      PlaceIn(static_cast<uint64_t>(background * 2 + masks + 10),
              *request.mutable_destination()->mutable_buffer());
      v1::DrawMasksReply reply;
      const absl::Status status = Draw(request, &reply);
      ASSERT_TRUE(status.ok()) << status;
      const std::string got = ReadMemfd(out, 48);
      for (size_t i = 0; i < 48; ++i) {
        const int old = background ? static_cast<uint8_t>(below[i]) : 0;
        // Weight round(256 * 179 * 0.5 / 255) of green.
        const int color = i % 3 == 1 ? 255 : 0;
        const int wanted = masks ? (color * 90 + old * 166 + 128) / 256 : old;
        ASSERT_EQ(static_cast<uint8_t>(got[i]), wanted)
            << i << " background " << background << " masks " << masks;
      }
    }
  }
}

TEST_F(MaskTest, ADestinationThatIsItsOwnTensorIsRefused) {
  v1::MaterializeMasksRequest request = Request();
  std::string memory = request.prototypes().inline_bytes();
  memory.resize(8192, kFill);
  const int kept = RegisterKept(5, MemfdWith(memory, Seals::kSize));
  PlaceIn(5, *request.mutable_prototypes()->mutable_buffer());
  *request.mutable_destination() = BufferDestination(5);
  v1::MaterializeMasksReply reply;
  ExpectError(Materialize(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kBufferOverlap, "destination");
  EXPECT_EQ(ReadMemfd(kept, 8192), memory);
  // Behind the tensor is free.
  request.mutable_destination()->mutable_buffer()->set_offset_bytes(4096);
  const absl::Status status = Materialize(request, &reply);
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace preprocd
