// Which frame field carries which request and where its reply comes back, so
// that one function makes every call.
// Thread-safety: safe (constants). Source: proto/preproc/v1/direct.proto.
#ifndef CLIENT_CPP_WIRE_TABLE_H_
#define CLIENT_CPP_WIRE_TABLE_H_

#include "preproc/v1/direct.pb.h"

namespace preprocd::internal {

template <typename Request>
struct Wire;

#define PREPROCD_WIRE(REQUEST, REPLY, FIELD, ACCESSOR)                \
  template <>                                                         \
  struct Wire<preproc::v1::REQUEST> {                                 \
    using Reply = preproc::v1::REPLY;                                 \
    static constexpr int kField = preproc::v1::ClientFrame::FIELD;    \
    static constexpr bool (preproc::v1::ServerFrame::*kHas)() const = \
        &preproc::v1::ServerFrame::has_##ACCESSOR;                    \
    static constexpr Reply* (preproc::v1::ServerFrame::*kMutable)() = \
        &preproc::v1::ServerFrame::mutable_##ACCESSOR;                \
  }

PREPROCD_WIRE(ListBuffersRequest, ListBuffersReply, kListBuffersFieldNumber,
              list_buffers);
PREPROCD_WIRE(ShareBufferRequest, ShareBufferReply, kShareBufferFieldNumber,
              share_buffer);
PREPROCD_WIRE(AcceptShareRequest, AcceptShareReply, kAcceptShareFieldNumber,
              accept_share);
PREPROCD_WIRE(RevokeShareRequest, RevokeShareReply, kRevokeShareFieldNumber,
              revoke_share);
PREPROCD_WIRE(ConvertRequest, ConvertReply, kConvertFieldNumber, convert);
PREPROCD_WIRE(DecodeRequest, DecodeReply, kDecodeFieldNumber, decode);
PREPROCD_WIRE(PeekRequest, PeekReply, kPeekFieldNumber, peek);
PREPROCD_WIRE(EncodeRequest, EncodeReply, kEncodeFieldNumber, encode);
PREPROCD_WIRE(ExplainRequest, ExplainReply, kExplainFieldNumber, explain);
PREPROCD_WIRE(CapabilitiesRequest, CapabilitiesReply, kCapabilitiesFieldNumber,
              capabilities);
PREPROCD_WIRE(PlanTilesRequest, PlanTilesReply, kPlanTilesFieldNumber,
              plan_tiles);
PREPROCD_WIRE(TileRequest, TileReply, kTileFieldNumber, tile);
PREPROCD_WIRE(TileOneRequest, ConvertReply, kTileOneFieldNumber, tile_one);
PREPROCD_WIRE(MaterializeMasksRequest, MaterializeMasksReply,
              kMaterializeMasksFieldNumber, materialize_masks);
PREPROCD_WIRE(DrawMasksRequest, DrawMasksReply, kDrawMasksFieldNumber,
              draw_masks);
PREPROCD_WIRE(SetPaletteRequest, SetPaletteReply, kSetPaletteFieldNumber,
              set_palette);
PREPROCD_WIRE(PrepareRequest, PrepareReply, kPrepareFieldNumber, prepare);
PREPROCD_WIRE(RunRequest, ConvertReply, kRunFieldNumber, run);
PREPROCD_WIRE(LiftBoxesRequest, LiftBoxesReply, kLiftBoxesFieldNumber,
              lift_boxes);
PREPROCD_WIRE(MergeDetectionsRequest, MergeDetectionsReply,
              kMergeDetectionsFieldNumber, merge_detections);

#undef PREPROCD_WIRE

}  // namespace preprocd::internal

#endif  // CLIENT_CPP_WIRE_TABLE_H_
