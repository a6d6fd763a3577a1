#include "daemon/service/mask_request.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/service/request_parser.h"
#include "engine/base/checked_math.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

#define PREPROCD_SAME(ENGINE, PROTO) \
  static_assert(static_cast<int>(ENGINE) == static_cast<int>(v1::PROTO))
PREPROCD_SAME(MaskValues::kBinary, MASK_VALUES_BINARY);
PREPROCD_SAME(MaskValues::kContinuous, MASK_VALUES_CONTINUOUS);
PREPROCD_SAME(MaskExtent::kBox, MASK_EXTENT_BOX);
PREPROCD_SAME(MaskExtent::kPlane, MASK_EXTENT_PLANE);
PREPROCD_SAME(MaskExtent::kUncropped, MASK_EXTENT_UNCROPPED);
PREPROCD_SAME(ColorMode::kClass, COLOR_MODE_CLASS);
PREPROCD_SAME(ColorMode::kInstance, COLOR_MODE_INSTANCE);
PREPROCD_SAME(ColorMode::kTrack, COLOR_MODE_TRACK);
#undef PREPROCD_SAME

// Rank and axes; `sizes` has `rank` entries.
absl::Status ParseShape(const v1::TensorRef& tensor, absl::string_view field,
                        int rank, int* sizes) {
  const std::string path = absl::StrCat(field, ".shape");
  if (tensor.shape_size() != rank) {
    return BadValue(ErrorReason::kGeometryInvalid, path,
                    absl::StrCat(tensor.shape_size()),
                    absl::StrCat("axes, not ", rank));
  }
  for (int i = 0; i < rank; ++i) {
    const std::optional<int> size = CheckedCast<int>(tensor.shape(i));
    if (!size || *size < 0) {
      return BadValue(ErrorReason::kGeometryInvalid,
                      absl::StrCat(path, "[", i, "]"),
                      absl::StrCat(tensor.shape(i)), "is no size");
    }
    sizes[i] = *size;
  }
  return absl::OkStatus();
}

absl::StatusOr<DType> ParseDType(v1::DataType dtype, absl::string_view field) {
  if (!v1::DataType_IsValid(dtype)) {
    return BadValue(ErrorReason::kFieldInvalid, field,
                    absl::StrCat(static_cast<int>(dtype)), "is not known");
  }
  if (dtype == v1::DATA_TYPE_UNSPECIFIED) return DType::kU8;
  return static_cast<DType>(dtype);
}

TensorQuantization QuantizationOf(const v1::TensorRef& tensor) {
  static_assert(sizeof(int32_t) ==
                sizeof(*std::declval<v1::TensorRef>().zero_points().data()));
  return {{tensor.scales().data(), static_cast<size_t>(tensor.scales_size())},
          {tensor.zero_points().data(),
           static_cast<size_t>(tensor.zero_points_size())}};
}

uint64_t ElementBytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 4;
    case DType::kF16:
    case DType::kI16:
    case DType::kBf16:
    case DType::kU16:
      return 2;
    default:
      return 1;
  }
}

Size SizeOf(const v1::Size& size) { return {size.width(), size.height()}; }

absl::Status ParseSpec(const v1::MaterializeMasksRequest& request,
                       MaskSpec& spec) {
  if (request.has_size()) {
    spec.size = SizeOf(request.size());
    // 0x0 in the engine means that nothing is asked for.
    if (spec.size == Size()) {
      return BadValue(ErrorReason::kGeometryInvalid, "size", "0x0", "is empty");
    }
  }
  if (request.has_content()) {
    const v1::Rect& r = request.content();
    spec.content = Rect{r.x(), r.y(), r.width(), r.height()};
  } else if (request.has_input()) {
    return InvalidField("content",
                        "content is missing, input has no meaning alone");
  }
  spec.input = SizeOf(request.input());
  if (!v1::MaskValues_IsValid(request.values())) {
    return BadValue(ErrorReason::kFieldInvalid, "values",
                    absl::StrCat(static_cast<int>(request.values())),
                    "is not known");
  }
  if (!v1::MaskExtent_IsValid(request.extent())) {
    return BadValue(ErrorReason::kFieldInvalid, "extent",
                    absl::StrCat(static_cast<int>(request.extent())),
                    "is not known");
  }
  spec.values = static_cast<MaskValues>(request.values());
  spec.extent = static_cast<MaskExtent>(request.extent());
  ASSIGN_OR_RETURN(spec.dtype, ParseDType(request.dtype(), "dtype"));
  spec.semantic = request.semantic();
  return absl::OkStatus();
}

DrawnObject ObjectOf(const v1::Detection& detection) {
  return {detection.label(), detection.track_id()};
}

absl::Status ParsePrototypes(const v1::MaterializeMasksRequest& request,
                             PrototypeTensor& tensor) {
  int sizes[3];
  RETURN_IF_ERROR(ParseShape(request.prototypes(), "prototypes", 3, sizes));
  tensor.channels_first = request.prototypes_chw();
  tensor.channels = sizes[tensor.channels_first ? 0 : 2];
  tensor.height = sizes[tensor.channels_first ? 1 : 0];
  tensor.width = sizes[tensor.channels_first ? 2 : 1];
  ASSIGN_OR_RETURN(tensor.dtype, ParseDType(request.prototypes().dtype(),
                                            "prototypes.dtype"));
  tensor.quantization = QuantizationOf(request.prototypes());
  return absl::OkStatus();
}

absl::Status ParseCoefficients(const v1::MaterializeMasksRequest& request,
                               CoefficientTensor& tensor) {
  int sizes[2];
  RETURN_IF_ERROR(ParseShape(request.coefficients(), "coefficients", 2, sizes));
  tensor.rows = sizes[0];
  tensor.channels = sizes[1];
  ASSIGN_OR_RETURN(tensor.dtype, ParseDType(request.coefficients().dtype(),
                                            "coefficients.dtype"));
  tensor.quantization = QuantizationOf(request.coefficients());
  return absl::OkStatus();
}

}  // namespace

absl::Status TensorMemory::Find(const BufferOwner& owner,
                                const v1::TensorRef& ref,
                                absl::string_view field, uint64_t needed,
                                uint64_t element) {
  std::string place;
  switch (ref.location_case()) {
    case v1::TensorRef::kBuffer: {
      place = absl::StrCat(field, ".buffer");
      ASSIGN_OR_RETURN(registered, FindReadable(owner, ref.buffer(), place));
      RETURN_IF_ERROR(FindRange(ref.buffer(), *registered, place, &offset_bytes,
                                &size_bytes));
      if (offset_bytes % element != 0) {
        return BadValue(ErrorReason::kFieldInvalid,
                        absl::StrCat(place, ".offset_bytes"),
                        absl::StrCat(offset_bytes),
                        absl::StrCat("is no multiple of ", element,
                                     ", the element's size"));
      }
      break;
    }
    case v1::TensorRef::kInlineBytes:
      place = absl::StrCat(field, ".inline_bytes");
      inline_bytes = &ref.inline_bytes();
      size_bytes = inline_bytes->size();
      break;
    case v1::TensorRef::LOCATION_NOT_SET:
      return InvalidField(
          field, absl::StrCat(field, " names neither a buffer nor bytes"));
  }
  if (size_bytes >= needed) {
    // What lies behind the tensor is not read, and may be written.
    size_bytes = needed;
    return absl::OkStatus();
  }
  return BadValue(ErrorReason::kBufferTooSmall, place, absl::StrCat(size_bytes),
                  absl::StrCat("bytes < ", needed, ", which the shape needs"));
}

absl::Status TensorMemory::Open(absl::string_view field, WorkReport& report) {
  if (inline_bytes != nullptr) {
    data = reinterpret_cast<const std::byte*>(inline_bytes->data());
    report.bytes_copied += size_bytes;
    if (reinterpret_cast<uintptr_t>(data) % sizeof(float) == 0) {
      return absl::OkStatus();
    }
    copy.assign(data, data + size_bytes);
    data = copy.data();
    return absl::OkStatus();
  }
  absl::StatusOr<Mapping> mapped = registered->memory[0]->Map(Access::kRead);
  if (!mapped.ok()) return UnderField(std::move(mapped).status(), field);
  mapping = *std::move(mapped);
  const std::span<std::byte> all = mapping.bytes();
  if (offset_bytes > all.size() || size_bytes > all.size() - offset_bytes) {
    return BadValue(ErrorReason::kBufferTooSmall,
                    absl::StrCat(field, ".buffer"), absl::StrCat(all.size()),
                    "bytes are left; it shrank");
  }
  WarnAboutCopies(*registered, report);
  report.bytes_copied += mapping.bytes_copied();
  data = all.data() + offset_bytes;
  return absl::OkStatus();
}

void TensorMemory::Reset() {
  mapping = Mapping();
  copy = std::vector<std::byte>();
  registered.reset();
  inline_bytes = nullptr;
  offset_bytes = 0;
  size_bytes = 0;
  data = nullptr;
}

size_t MaskWork::kept_bytes() const {
  return workspace.kept_bytes() + class_map.capacity();
}

void MaskWork::Reset() {
  for (TensorMemory* bytes :
       {&prototype_bytes, &coefficient_bytes, &dense_bytes}) {
    bytes->Reset();
  }
  materialize_request = nullptr;
  materialize_reply = nullptr;
  draw_request = nullptr;
  draw_reply = nullptr;
  prototypes = PrototypeTensor();
  coefficients = CoefficientTensor();
  boxes.clear();
  objects.clear();
  spec = MaskSpec();
  plan.masks.clear();
  has_masks = false;
  style = DrawStyle();
  palette.clear();
  dense.clear();
  dense_grid = Size();
  backdrop = Backdrop::kZeros;
  convert_background = false;
}

absl::Status ParseMasks(const BufferOwner& owner,
                        const v1::MaterializeMasksRequest& request,
                        MaskWork& work) {
  RETURN_IF_ERROR(ParseSpec(request, work.spec));
  // The size that drawing has is known later; checks need one.
  if (work.draw_request != nullptr) work.spec.size = {1, 1};
  for (const v1::Detection& box : request.boxes()) {
    work.boxes.push_back({box.x0(), box.y0(), box.x1(), box.y1()});
    work.objects.push_back(ObjectOf(box));
  }
  work.has_masks = request.has_prototypes() || request.has_coefficients() ||
                   !work.boxes.empty() || work.spec.semantic;
  if (!work.has_masks) return absl::OkStatus();
  RETURN_IF_ERROR(ParsePrototypes(request, work.prototypes));
  if (request.has_coefficients()) {
    RETURN_IF_ERROR(ParseCoefficients(request, work.coefficients));
  }
  // Bounds the shapes, so that their products below fit 64 bits.
  RETURN_IF_ERROR(PlanMasks(work.prototypes, work.coefficients, work.boxes,
                            work.spec, work.plan));
  RETURN_IF_ERROR(
      work.prototype_bytes.Find(owner, request.prototypes(), "prototypes",
                                preprocd::TensorBytes(work.prototypes),
                                ElementBytes(work.prototypes.dtype)));
  if (work.coefficients.rows == 0) return absl::OkStatus();
  return work.coefficient_bytes.Find(owner, request.coefficients(),
                                     "coefficients",
                                     preprocd::TensorBytes(work.coefficients),
                                     ElementBytes(work.coefficients.dtype));
}

absl::Status CheckMaskOutput(const v1::MaterializeMasksRequest& request) {
  if (!v1::MaskOutput_IsValid(request.output())) {
    return BadValue(ErrorReason::kFieldInvalid, "output",
                    absl::StrCat(static_cast<int>(request.output())),
                    "is not known");
  }
  const bool dense = request.output() == v1::MASK_OUTPUT_UNSPECIFIED ||
                     request.output() == v1::MASK_OUTPUT_DENSE;
  if (!dense) {
    if (request.has_destination()) {
      return InvalidField("destination",
                          "destination is for dense masks; this output is in "
                          "the reply");
    }
    if (request.values() == v1::MASK_VALUES_CONTINUOUS) {
      return InvalidField("values",
                          "values: continuous masks have only the dense form");
    }
    return absl::OkStatus();
  }
  const v1::Destination& to = request.destination();
  if (to.has_layout() || to.tensor_layout() != v1::TENSOR_LAYOUT_UNSPECIFIED) {
    return InvalidField("destination.layout",
                        "destination.layout describes a picture, but masks "
                        "are plain bytes");
  }
  if (to.location_case() == v1::Destination::kInline &&
      to.inline_() != v1::INLINE_ENCODING_UNSPECIFIED &&
      to.inline_() != v1::INLINE_ENCODING_RAW) {
    return InvalidField("destination.inline",
                        "destination.inline: masks are raw bytes");
  }
  return absl::OkStatus();
}

absl::Status ParseColors(
    const google::protobuf::RepeatedPtrField<v1::Color>& colors,
    absl::string_view field, std::vector<MaskColor>& out) {
  if (colors.size() > kMaxPaletteColors) {
    return BadValue(ErrorReason::kTooLarge, field, absl::StrCat(colors.size()),
                    absl::StrCat("colours > ", kMaxPaletteColors));
  }
  out.clear();
  for (int i = 0; i < colors.size(); ++i) {
    const v1::Color& c = colors[i];
    if (c.r() > 255 || c.g() > 255 || c.b() > 255 || c.a() > 255) {
      return BadValue(ErrorReason::kFieldInvalid,
                      absl::StrCat(field, "[", i, "]"),
                      absl::StrCat(c.r(), ",", c.g(), ",", c.b(), ",", c.a()),
                      "is not within 0..255");
    }
    out.push_back({static_cast<uint8_t>(c.r()), static_cast<uint8_t>(c.g()),
                   static_cast<uint8_t>(c.b()), static_cast<uint8_t>(c.a())});
  }
  return absl::OkStatus();
}

absl::Status ParseDrawStyle(const v1::DrawMasksRequest& request,
                            const Session::Palette& session_palette,
                            MaskWork& work) {
  if (!v1::ColorMode_IsValid(request.color_mode())) {
    return BadValue(ErrorReason::kFieldInvalid, "color_mode",
                    absl::StrCat(static_cast<int>(request.color_mode())),
                    "is not known");
  }
  work.style.color_mode = static_cast<ColorMode>(request.color_mode());
  if (request.has_opacity()) work.style.opacity = request.opacity();
  RETURN_IF_ERROR(ParseColors(request.palette(), "palette", work.palette));
  if (work.palette.empty() && session_palette != nullptr) {
    for (const auto& [r, g, b, a] : *session_palette) {
      work.palette.push_back({r, g, b, a});
    }
  }
  work.style.palette = work.palette;
  work.style.boxes = request.draw_boxes();
  return absl::OkStatus();
}

absl::Status ParseDense(const BufferOwner& owner, const v1::DenseMasks& dense,
                        MaskWork& work) {
  work.dense_grid = SizeOf(dense.size());
  if (dense.masks_size() > kMaxMasks) {
    return BadValue(ErrorReason::kTooLarge, "dense.masks",
                    absl::StrCat(dense.masks_size()),
                    absl::StrCat("masks > ", kMaxMasks));
  }
  if (work.dense_grid.width < 1 || work.dense_grid.height < 1 ||
      work.dense_grid.width > kMaxImageAxis ||
      work.dense_grid.height > kMaxImageAxis) {
    return BadValue(
        ErrorReason::kGeometryInvalid, "dense.size",
        absl::StrCat(work.dense_grid.width, "x", work.dense_grid.height),
        absl::StrCat("outside 1..", kMaxImageAxis));
  }
  if (dense.objects_size() != dense.masks_size()) {
    return BadValue(
        ErrorReason::kFieldInvalid, "dense.objects",
        absl::StrCat(dense.objects_size()),
        absl::StrCat("objects, but ", dense.masks_size(), " masks"));
  }
  const v1::DataType dtype = dense.pixels().dtype();
  if (dtype != v1::DATA_TYPE_U8 && dtype != v1::DATA_TYPE_UNSPECIFIED) {
    return InvalidField("dense.pixels.dtype", "dense.pixels.dtype is not u8");
  }
  uint64_t needed = 0;
  for (int i = 0; i < dense.masks_size(); ++i) {
    const v1::Mask& mask = dense.masks(i);
    const Rect bounds = {mask.bounds().x(), mask.bounds().y(),
                         mask.bounds().width(), mask.bounds().height()};
    const std::string field = absl::StrCat("dense.masks[", i, "]");
    RETURN_IF_ERROR(ValidateRectInside(bounds, work.dense_grid,
                                       absl::StrCat(field, ".bounds")));
    const std::optional<uint64_t> end = CheckedMulAdd(
        static_cast<uint64_t>(bounds.width),
        static_cast<uint64_t>(bounds.height), mask.offset_bytes());
    if (!end) {
      return BadValue(ErrorReason::kBufferTooSmall,
                      absl::StrCat(field, ".offset_bytes"),
                      absl::StrCat(mask.offset_bytes()), "overflows");
    }
    needed = std::max(needed, *end);
    work.dense.push_back({bounds, nullptr, static_cast<size_t>(bounds.width)});
    work.objects.push_back(ObjectOf(dense.objects(i)));
  }
  if (dense.masks_size() == 0) return absl::OkStatus();
  return work.dense_bytes.Find(owner, dense.pixels(), "dense.pixels", needed,
                               1);
}

void PointDense(const v1::DenseMasks& dense, MaskWork& work) {
  for (int i = 0; i < dense.masks_size(); ++i) {
    work.dense[static_cast<size_t>(i)].pixels =
        reinterpret_cast<const uint8_t*>(work.dense_bytes.data) +
        dense.masks(i).offset_bytes();
  }
}

}  // namespace preprocd
