#include "engine/device/cpu/conversion.h"

#include <cstring>

#include "base/storage_type.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/conversion.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

template <typename From, typename To>
HWY_INLINE void convert_rows(const Matrix& from, const Matrix& to) {
  for (std::int64_t row = 0; row < from.rows; ++row) {
    map(from.row<From>(row), to.row<To>(row), from.columns, [](Float value) HWY_ATTR { return value; });
  }
}

void convert_vectors(const Matrix& from, const Matrix& to) {
  with_storage_type(from.dtype, [&]<typename From>(From) HWY_ATTR {
    with_storage_type(to.dtype, [&]<typename To>(To) HWY_ATTR { convert_rows<From, To>(from, to); });
  });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(convert_vectors);

void convert(const Matrix& from, const Matrix& to) {
  if (from.dtype != to.dtype) {
    HWY_DYNAMIC_DISPATCH(convert_vectors)(from, to);
    return;
  }
  for (std::int64_t row = 0; row < from.rows; ++row) {
    std::memcpy(to.row_slice(row, 1).data, from.row_slice(row, 1).data,
                static_cast<std::size_t>(from.columns * size_of(from.dtype)));
  }
}

}  // namespace strata
#endif
