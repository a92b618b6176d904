// Scenarios of the kernels that mixtures of experts are made of; see kernel_scenarios.h.
#pragma once

#include "tests/device/scenario.h"

namespace strata {

Scenario route_scenario(DType dtype, std::int64_t tokens, std::int64_t experts, std::int64_t top_k,
                        bool normalise, std::int64_t padding = 0);
Scenario route_backward_scenario(DType dtype, std::int64_t tokens, std::int64_t experts, std::int64_t top_k,
                                 bool normalise, bool balance, std::int64_t padding = 0);
enum class BalanceOutputs { both, loss, gradient };
Scenario load_balance_scenario(std::int64_t experts, bool scaled,
                               BalanceOutputs outputs = BalanceOutputs::both);

/// Some groups have no rows.
Scenario group_rows_scenario(std::int64_t rows, std::int64_t groups, std::int64_t copies);
/// `sizes` are the rows of each group.
Scenario count_rows_scenario(const std::vector<std::int32_t>& sizes);
Scenario combine_rows_scenario(DType dtype, std::int64_t tokens, std::int64_t slots, std::int64_t columns,
                               bool weights, std::int64_t padding = 0);
Scenario combine_rows_backward_scenario(DType dtype, std::int64_t tokens, std::int64_t slots,
                                        std::int64_t columns, bool in_place, std::int64_t padding = 0);

/// `sizes` as above.
Scenario grouped_product_scenario(DType dtype, const std::vector<std::int32_t>& sizes, std::int64_t k,
                                  std::int64_t n, bool transpose_b, std::int64_t padding = 0);
Scenario grouped_gradient_scenario(DType dtype, const std::vector<std::int32_t>& sizes, std::int64_t m,
                                   std::int64_t n, std::int64_t padding = 0);

}  // namespace strata
