// The oracle: double precision, one pixel at a time, obviously correct and
// slow. Every other backend is compared with it.
// Thread-safety: safe.
// Source: DESIGN section 5; each step names its line.
#ifndef ENGINE_BACKENDS_REFERENCE_REFERENCE_CONVERTER_H_
#define ENGINE_BACKENDS_REFERENCE_REFERENCE_CONVERTER_H_

#include <memory>

#include "engine/convert/converter.h"

namespace preprocd {

std::unique_ptr<Converter> MakeReferenceConverter();

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_REFERENCE_REFERENCE_CONVERTER_H_
