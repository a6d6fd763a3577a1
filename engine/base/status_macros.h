// The two macros that pass an absl::Status up; Debian 12's Abseil has none.
// Thread-safety: safe. Same shape as newer Abseil's, so they can be replaced.
#ifndef ENGINE_BASE_STATUS_MACROS_H_
#define ENGINE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function when `expr` is not OK.
#define RETURN_IF_ERROR(expr)                       \
  do {                                              \
    if (absl::Status status_macro_result_ = (expr); \
        !status_macro_result_.ok()) {               \
      return status_macro_result_;                  \
    }                                               \
  } while (false)

#define PREPROCD_MACRO_CONCAT_INNER_(a, b) a##b
#define PREPROCD_MACRO_CONCAT_(a, b) PREPROCD_MACRO_CONCAT_INNER_(a, b)

// ASSIGN_OR_RETURN(auto image, Decode(bytes)); `lhs` may declare a variable.
#define ASSIGN_OR_RETURN(lhs, expr) \
  PREPROCD_ASSIGN_OR_RETURN_IMPL_(  \
      PREPROCD_MACRO_CONCAT_(status_or_macro_, __LINE__), lhs, expr)
#define PREPROCD_ASSIGN_OR_RETURN_IMPL_(statusor, lhs, expr) \
  auto statusor = (expr);                                    \
  if (!statusor.ok()) return std::move(statusor).status();   \
  lhs = *std::move(statusor)

#endif  // ENGINE_BASE_STATUS_MACROS_H_
