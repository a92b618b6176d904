#include <algorithm>
#include <cmath>
#include <vector>

#include "base/nth.h"
#include "engine/device/attention_calls.h"
#include "engine/device/reference/reference_kernels.h"
#include "engine/device/reference/scalar.h"

namespace strata {

using namespace reference;

namespace {

/// The rows and columns of one query head and of the key/value head that it reads.
struct Head {
  Head(const AttentionShape& shape, std::int64_t batch, std::int64_t head)
      : first_row(batch * shape.sequence),
        query_column(head * shape.head_dimension),
        kv_column(head / (shape.heads / shape.kv_heads) * shape.head_dimension),
        statistics_row(batch * shape.heads + head) {}
  std::int64_t first_row, query_column, kv_column, statistics_row;
};

/// Whether token t of sequence `batch` sees key s.
template <typename Call>
bool sees(const Call& call, std::int64_t batch, std::int64_t t, std::int64_t s) {
  const AttentionShape& shape = call.shape;
  const std::int64_t distance = shape.queries().at(t) - shape.keys().at(s);
  const std::int64_t row = batch * shape.sequence + t;
  return distance >= 0 && (shape.window == 0 || distance < shape.window) &&
         (call.places.empty() || distance <= nth(call.places, row));
}

/// What softmax is given for a product of query and key, and its derivative by that product.
struct Score {
  Score(const AttentionShape& shape, double product) : value(shape.scale * product), slope(shape.scale) {
    if (shape.soft_cap == 0) return;
    const double tangent = std::tanh(value / shape.soft_cap);
    value = shape.soft_cap * tangent;
    slope *= 1 - tangent * tangent;
  }
  double value, slope;
};

double dot(const Matrix& a, std::int64_t a_row, std::int64_t a_column, const Matrix& b, std::int64_t b_row,
           std::int64_t b_column, std::int64_t count) {
  double sum = 0;
  for (std::int64_t d = 0; d < count; ++d) {
    sum += load(a, a_row, a_column + d) * load(b, b_row, b_column + d);
  }
  return sum;
}

void expect_shapes(const AttentionShape& shape, const Matrix& query, const Matrix& key, const Matrix& value,
                   const Matrix& out, const Matrix& log_sum_exp) {
  const std::int64_t rows = shape.batch * shape.sequence;
  expect(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, "kv_heads that divide heads");
  expect(is_shape(query, rows, shape.heads * shape.head_dimension) &&
             (is_like(out, query) || is_fp32(out, query.rows, query.columns)),
         "query and out of [tokens, heads * head_dimension]");
  expect(is_shape(key, rows, shape.kv_heads * shape.head_dimension) && is_like(value, key) &&
             key.dtype == query.dtype,
         "key and value of [tokens, kv_heads * head_dimension]");
  expect(is_fp32(log_sum_exp, shape.batch * shape.heads, shape.sequence),
         "fp32 log_sum_exp of [batch * heads, sequence]");
}

}  // namespace

void run_on_reference(const AttentionForward& attention) {
  const auto& [shape, query, key, value, out, log_sum_exp, before, log_sum_exp_before, places] = attention;
  expect_shapes(shape, query, key, value, out, log_sum_exp);
  expect_places(places, query.rows);
  expect(!before || (is_fp32(before, out.rows, out.columns) && is_like(log_sum_exp_before, log_sum_exp)),
         "fp32 results of other keys, of the same shape");
  auto scores = sized<std::vector<double>>(shape.sequence);
  for (std::int64_t index = 0; index < shape.batch * shape.heads; ++index) {
    const std::int64_t batch = index / shape.heads;
    const Head head(shape, batch, index % shape.heads);
    for (std::int64_t t = 0; t < shape.sequence; ++t) {
      const double normaliser_before = before ? load(log_sum_exp_before, head.statistics_row, t) : -INFINITY;
      double largest = normaliser_before;
      for (std::int64_t s = 0; s < shape.sequence; ++s) {
        double& score = nth(scores, s);
        score = -INFINITY;
        if (!sees(attention, batch, t, s)) continue;
        score = Score(shape, dot(query, head.first_row + t, head.query_column, key, head.first_row + s,
                                 head.kv_column, shape.head_dimension))
                    .value;
        largest = std::max(largest, score);
      }
      double sum = before ? std::exp(normaliser_before - largest) : 0;
      for (std::int64_t s = 0; s < shape.sequence; ++s)
        if (sees(attention, batch, t, s)) sum += std::exp(nth(scores, s) - largest);
      const double normaliser = largest + std::log(sum);
      store(log_sum_exp, head.statistics_row, t, normaliser);
      const double share_before = before ? std::exp(normaliser_before - normaliser) : 0;
      for (std::int64_t d = 0; d < shape.head_dimension; ++d) {
        double result = before ? share_before * load(before, head.first_row + t, head.query_column + d) : 0;
        for (std::int64_t s = 0; s < shape.sequence; ++s) {
          if (!sees(attention, batch, t, s)) continue;
          result +=
              std::exp(nth(scores, s) - normaliser) * load(value, head.first_row + s, head.kv_column + d);
        }
        store(out, head.first_row + t, head.query_column + d, result);
      }
    }
  }
}

// With p the probabilities and D = out · out_gradient of a row (Dao et al. 2022, appendix B):
//   score_gradient = p · (out_gradient · value - D) · slope of the score,
//   query_gradient = Σ_s score_gradient · key,  key_gradient = Σ_t score_gradient · query,  value_gradient =
//   Σ_t p · out_gradient.
void run_on_reference(const AttentionBackward& attention) {
  const auto& a = attention;
  const AttentionShape& shape = a.shape;
  expect_shapes(shape, a.query, a.key, a.value, a.out, a.log_sum_exp);
  expect_places(a.places, a.query.rows);
  const auto is_gradient = [](const Matrix& gradient, const Matrix& of) {
    return is_like(gradient, of) || is_fp32(gradient, of.rows, of.columns);
  };
  expect(is_like(a.out_gradient, a.out) && is_gradient(a.query_gradient, a.query) &&
             is_gradient(a.key_gradient, a.key) && is_gradient(a.value_gradient, a.value) &&
             (!a.query_gradient_before || is_fp32(a.query_gradient_before, a.query.rows, a.query.columns)),
         "gradients of the shapes of their values, in their dtype or in fp32");
  const std::int64_t dimension = shape.head_dimension;
  const auto elements = [&](const Matrix& x) { return static_cast<std::size_t>(x.rows * x.columns); };
  std::vector<double> query_sums(elements(a.query)), key_sums(elements(a.key)), value_sums(elements(a.value));
  for (std::int64_t index = 0; index < shape.batch * shape.heads; ++index) {
    const Head head(shape, index / shape.heads, index % shape.heads);
    for (std::int64_t t = 0; t < shape.sequence; ++t) {
      const std::int64_t query_row = head.first_row + t;
      const double out_projection =
          dot(a.out, query_row, head.query_column, a.out_gradient, query_row, head.query_column, dimension);
      for (std::int64_t s = 0; s < shape.sequence; ++s) {
        if (!sees(a, index / shape.heads, t, s)) continue;
        const std::int64_t key_row = head.first_row + s;
        const Score score(
            shape, dot(a.query, query_row, head.query_column, a.key, key_row, head.kv_column, dimension));
        const double probability = std::exp(score.value - load(a.log_sum_exp, head.statistics_row, t));
        const double probability_gradient =
            dot(a.out_gradient, query_row, head.query_column, a.value, key_row, head.kv_column, dimension);
        const double score_gradient = probability * (probability_gradient - out_projection) * score.slope;
        for (std::int64_t d = 0; d < dimension; ++d) {
          const auto query_index =
              static_cast<std::size_t>(query_row * a.query.columns + head.query_column + d);
          const std::int64_t key_index = key_row * a.key.columns + head.kv_column + d;
          query_sums[query_index] += score_gradient * load(a.key, key_row, head.kv_column + d);
          nth(key_sums, key_index) += score_gradient * load(a.query, query_row, head.query_column + d);
          nth(value_sums, key_index) += probability * load(a.out_gradient, query_row, head.query_column + d);
        }
      }
    }
  }
  const auto write = [](const std::vector<double>& sums, const Matrix& gradient) {
    for_each_element(gradient, [&](std::int64_t row, std::int64_t column) {
      store(gradient, row, column, nth(sums, row * gradient.columns + column));
    });
  };
  if (a.query_gradient_before) {
    for_each_element(a.query_gradient, [&](std::int64_t row, std::int64_t column) {
      nth(query_sums, row * a.query.columns + column) += load(a.query_gradient_before, row, column);
    });
  }
  write(query_sums, a.query_gradient);
  write(key_sums, a.key_gradient);
  write(value_sums, a.value_gradient);
}

void run_on_reference(const CachedAttention& attention) {
  const auto& [shape, lengths, query, key, value, out] = attention;
  expect(shape.context.ranks == 1 && shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0,
         "whole sequences, and kv_heads that divide heads");
  expect(is_shape(query, shape.batch, shape.heads * shape.head_dimension) && is_like(out, query),
         "query and out of [batch, heads * head_dimension]");
  expect(is_shape(key, shape.batch * shape.sequence, shape.kv_heads * shape.head_dimension) &&
             is_like(value, key) && key.dtype == query.dtype,
         "a cache of [batch * sequence, kv_heads * head_dimension]");
  expect(std::ssize(lengths) == shape.batch, "a length for each sequence");
  auto weights = sized<std::vector<double>>(shape.sequence);
  for (std::int64_t index = 0; index < shape.batch * shape.heads; ++index) {
    const std::int64_t batch = index / shape.heads;
    const Head head(shape, batch, index % shape.heads);
    const std::int64_t length = nth(lengths, batch);
    expect(length >= 1 && length <= shape.sequence, "lengths between 1 and the rows of the cache");
    const std::int64_t first = shape.window > 0 ? std::max<std::int64_t>(0, length - shape.window) : 0;
    double largest = -INFINITY, total = 0;
    for (std::int64_t s = first; s < length; ++s) {
      const Score score(shape, dot(query, batch, head.query_column, key, head.first_row + s, head.kv_column,
                                   shape.head_dimension));
      nth(weights, s) = score.value;
      largest = std::max(largest, score.value);
    }
    for (std::int64_t s = first; s < length; ++s) {
      double& weight = nth(weights, s);
      weight = std::exp(weight - largest);
      total += weight;
    }
    for (std::int64_t d = 0; d < shape.head_dimension; ++d) {
      double sum = 0;
      for (std::int64_t s = first; s < length; ++s)
        sum += nth(weights, s) * load(value, head.first_row + s, head.kv_column + d);
      store(out, batch, head.query_column + d, sum / total);
    }
  }
}

void run_on_reference(const Rope& rope) {
  const std::int64_t half = rope.cosine.columns;
  expect(rope.x && rope.x.columns % rope.head_dimension == 0 && half > 0 && 2 * half <= rope.head_dimension,
         "whole heads with the columns that are rotated");
  const std::int64_t positions = rope.places.empty() ? rope.sequence : rope.cosine.rows;
  expect(is_fp32(rope.cosine, positions, half) && is_fp32(rope.sine, positions, half),
         "fp32 tables of [sequence, half of the rotated columns]");
  expect_places(rope.places, rope.x.rows);
  for (std::int64_t row = 0; row < rope.x.rows; ++row) {
    const std::int64_t position = position_of(rope.places, row, rope.sequence);
    expect(position >= 0 && position < positions, "places that tables have a row for");
    for (std::int64_t column = 0; column < rope.x.columns; column += rope.head_dimension) {
      for (std::int64_t d = 0; d < half; ++d) {
        const double cosine = load(rope.cosine, position, d);
        const double sine = load(rope.sine, position, d) * (rope.inverse ? -1 : 1);
        const double first = load(rope.x, row, column + d);
        const double second = load(rope.x, row, column + half + d);
        store(rope.x, row, column + d, first * cosine - second * sine);
        store(rope.x, row, column + half + d, second * cosine + first * sine);
      }
    }
  }
}

}  // namespace strata
