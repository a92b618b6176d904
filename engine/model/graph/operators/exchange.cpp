#include "engine/model/graph/operators/exchange.h"

#include <array>

#include "base/nth.h"

namespace strata {

std::string_view name_of(ExchangeKind kind) {
  constexpr std::array<std::string_view, 4> names = {"all_reduce", "reduce_scatter", "all_gather",
                                                     "ring_shift"};
  return nth(names, kind);
}

Touches ExchangeRule::touches() const {
  if (kind_ == ExchangeKind::all_reduce) return {Touch::updates};
  return {Touch::reads, Touch::writes};
}

std::string_view ExchangeRule::axes() const {
  return kind_ == ExchangeKind::all_reduce ? "t^ c^" : "t^ c^, t^ c^";
}

std::optional<ExchangeForm> ExchangeRule::exchange_form() const {
  return ExchangeForm{.kind = kind_,
                      .shared = shared_,
                      .source = source,
                      .destination = kind_ == ExchangeKind::all_reduce ? source : destination};
}

void ExchangeRule::run(Kernels&, const Operands&) const {
  throw std::logic_error("ranks exchange tensors between two segments");
}

void ExchangeRule::differentiate(const Node&, Derivation&) const {
  throw std::logic_error("a pass that is laid out over ranks has been derived before");
}

}  // namespace strata
