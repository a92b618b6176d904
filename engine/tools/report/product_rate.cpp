#include "engine/tools/report/product_rate.h"

#include <algorithm>

namespace strata {

double ProductRate::share(double flops, double seconds) {
  if (seconds <= 0 || now_ <= 0) return 0;
  const double reached = flops / seconds;
  now_ = std::max(now_, reached);
  return reached / now_;
}

}  // namespace strata
