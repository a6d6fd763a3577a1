// The CPU backend: row source -> ring of staged rows -> sampler -> colour ->
// dtype stage -> layout writer, split by rows over a pool. No full-frame
// intermediate.
// Thread-safety: safe.
#ifndef ENGINE_BACKENDS_CPU_CPU_CONVERTER_H_
#define ENGINE_BACKENDS_CPU_CPU_CONVERTER_H_

#include <memory>

#include "engine/convert/converter.h"

namespace preprocd {

std::unique_ptr<Converter> MakeCpuConverter();

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_CPU_CONVERTER_H_
