// Whether this machine can run the vector kernels. Highway picks the best
// instruction set at run time; the one-lane fallback has no kernels of ours,
// and the float rows do the work there.
// Thread-safety: safe.
#ifndef ENGINE_BACKENDS_CPU_VECTOR_TARGETS_H_
#define ENGINE_BACKENDS_CPU_VECTOR_TARGETS_H_

namespace preprocd {

bool VectorKernelsRun();

// What the one-lane build of a kernel does. REQUIRES: never called.
[[noreturn]] void NoVectorKernels();

// The instruction set that kernels use now, e.g. "AVX2".
const char* VectorTargetName();

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_VECTOR_TARGETS_H_
