// The rate of products of a machine while a run goes on, by which all that watches the run counts what it
// uses. One thread.
#pragma once

namespace strata {

/// As measured before the run, until the run computes faster.
class ProductRate {
 public:
  /// In FLOP/s.
  explicit ProductRate(double measured) : measured_(measured), now_(measured) {}

  /// The share of the machine's rate of products that `flops` in `seconds` are, from 0 to 1. If they beat the
  /// rate, it rises to theirs. 0 if `seconds` or the rate is 0.
  double share(double flops, double seconds);

  double measured() const { return measured_; }
  double now() const { return now_; }

 private:
  double measured_, now_;
};

}  // namespace strata
