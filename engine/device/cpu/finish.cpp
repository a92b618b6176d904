#include "engine/device/cpu/finish.h"

#include "base/storage_type.h"
#include "engine/device/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/device/cpu/finish.cpp"
#include "hwy/foreach_target.h"
//
#include "engine/device/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::HWY_NAMESPACE {

template <typename Bias, typename Out>
HWY_INLINE void finish_rows(const Matrix& sums, const Matrix& bias, bool accumulate, const Matrix& out) {
  const Bias* shift = bias ? bias.row<Bias>(0) : nullptr;
  for (std::int64_t row = 0; row < out.rows; ++row) {
    const float* from = sums.row<float>(row);
    Out* to = out.row<Out>(row);
    for_vectors(out.columns, [&](auto access, std::int64_t i) HWY_ATTR {
      Float value = access.load(from + i);
      if (shift != nullptr) value = hn::Add(value, access.load(shift + i));
      if (accumulate) value = hn::Add(value, access.load(to + i));
      access.store(value, to + i);
    });
  }
}

void finish(const Matrix& sums, const Matrix& bias, bool accumulate, const Matrix& out) {
  with_storage_type(bias.dtype, [&]<typename Bias>(Bias) HWY_ATTR {
    with_storage_type(
        out.dtype, [&]<typename Out>(Out) HWY_ATTR { finish_rows<Bias, Out>(sums, bias, accumulate, out); });
  });
}

}  // namespace strata::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata {

HWY_EXPORT(finish);

void finish_block(const Matrix& sums, const Matrix& bias, bool accumulate, const Matrix& out) {
  HWY_DYNAMIC_DISPATCH(finish)(sums, bias, accumulate, out);
}

}  // namespace strata
#endif
