// A matrix with the same singular vectors and singular values near 1, by Newton-Schulz iterations of matrix
// products (Jordan et al. 2024; Bernstein & Newhouse 2024), rounded where torch.optim.Muon rounds.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "engine/device/kernels.h"
#include "engine/device/matrix.h"

namespace strata {

/// Bytes of the workspace that orthogonalize() wants for a matrix of this shape.
Bytes orthogonalize_bytes(std::int64_t rows, std::int64_t columns);

/// FLOPs of its products.
double orthogonalize_flops(std::int64_t rows, std::int64_t columns);

/// Replaces the matrix, of any storage type, by an orthogonal one in bf16's precision. A matrix of zeros
/// stays. REQUIRES: it is contiguous; `workspace`, at a multiple of 64 bytes, and it are in the memory of the
/// kernels' device.
void orthogonalize(Kernels& kernels, const Matrix& matrix, std::byte* workspace);

}  // namespace strata
