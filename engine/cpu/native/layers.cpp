// Inkling's small operations between matrix products, for CPUs, in float32: short convolutions over paged inputs, preparing queries,
// keys and values, norms, the router's choice, gated activations. Each is one call instead of a dozen of torch's, which is what a
// decode step of a small model consists of. The torch kernels beside (engine/cpu) are the reference; tests hold the two equal.
//
// Rows are shared among OpenMP threads where there are many. Compiled for the processor it runs on. Knows no Python and no torch.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>
#ifdef __AVX512BW__
#include <immintrin.h>
#endif

namespace {
constexpr int MANY = 64;  // rows from which on threads pay
constexpr int TAPS = 8;   // most taps of a convolution
}

// Where the taps of a step's rows lie. Pages are [block][head][place][channel].
extern "C" struct Taps {
  float* cache;
  const int64_t* positions;  // [t]
  const int32_t* table;      // [request][pages of it]
  const int32_t* request;    // [t]
  const int64_t* slots;      // [t], negative: nobody's row
  const int32_t* start;      // [t], first row of the row's request
  int64_t block, head, place, table_row;
  int32_t page, taps, rows, threads;
};

namespace {

// Sources of a row's earlier taps: rows of this step (`recent`), places in the cache (`stored`), or neither.
struct Sources {
  int32_t recent[TAPS];
  int64_t stored[TAPS];
};

Sources sources(const Taps& s, int row) {
  Sources found;
  for (int back = 1; back < s.taps; ++back) {
    const int64_t source = s.positions[row] - back;
    const bool inside = row - back >= s.start[row];
    // A row deep inside its request needs no look at its position.
    const bool known = (source >= 0 && s.slots[row] >= 0) || (inside && row - s.start[row] >= s.taps - 1 && s.positions[row] >= s.taps - 1);
    found.recent[back] = known && inside ? row - back : -1;
    found.stored[back] = -1;
    if (known && !inside)
      found.stored[back] = s.table[s.request[row] * s.table_row + source / s.page] * s.block + source % s.page * s.place;
  }
  return found;
}

// Weights [c][taps] as [taps][c].
std::vector<float> by_tap(const float* weight, int channels, int taps) {
  std::vector<float> turned(size_t(channels) * taps);
  for (int c = 0; c < channels; ++c)
    for (int t = 0; t < taps; ++t) turned[size_t(t) * channels + c] = weight[c * taps + t];
  return turned;
}

// out = x + conv(x) of `width` channels whose rows lie `stride` apart; `at` is their place in a page's row. The taps' weights lie
// `channels` apart, the current token's last.
inline void convolve(const Taps& s, const Sources& from, const float* x, int64_t stride, int row, const float* weight, int channels,
                     int64_t at, int width, float* out) {
  const float* now = x + row * stride;
  const float* own = weight + (s.taps - 1) * channels;
  for (int c = 0; c < width; ++c) out[c] = now[c] + now[c] * own[c];
  for (int back = 1; back < s.taps; ++back) {
    const float* before = from.recent[back] >= 0 ? x + from.recent[back] * stride
                          : from.stored[back] >= 0 ? s.cache + from.stored[back] + at : nullptr;
    if (!before) continue;
    const float* tap = own - back * channels;
    for (int c = 0; c < width; ++c) out[c] += before[c] * tap[c];
  }
}

// Keep a row's inputs for later steps.
inline void keep(const Taps& s, int row, const float* x, int64_t at, int width) {
  if (s.slots[row] < 0) return;
  std::copy(x, x + width, s.cache + s.slots[row] / s.page * s.block + s.slots[row] % s.page * s.place + at);
}

inline void norm(const float* x, const float* weight, float eps, int width, float factor, float* out) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int c = 0; c < width; ++c) sum += x[c] * x[c];
  const float scale = 1.0f / std::sqrt(sum / width + eps);
  for (int c = 0; c < width; ++c) out[c] = x[c] * scale * weight[c] * factor;
}

// Σ row · entry; exact for up to 512 channels at their largest. By pairs where the processor can: compilers do not find that.
inline int32_t dot(const int16_t* row, const int8_t* entry, int width) {
  int32_t sum = 0;
  int c = 0;
#ifdef __AVX512BW__
  __m512i sums = _mm512_setzero_si512();
  for (; c + 32 <= width; c += 32) {
    const __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(entry + c)));
    sums = _mm512_add_epi32(sums, _mm512_madd_epi16(wide, _mm512_loadu_si512(row + c)));
  }
  sum = _mm512_reduce_add_epi32(sums);
#endif
#pragma omp simd reduction(+ : sum)
  for (int i = c; i < width; ++i) sum += int32_t(row[i]) * int32_t(int16_t(entry[i]));
  return sum;
}

// Loops over a part of the head are functions of their own: what a parallel region shares, it loads again after every store.

// out[t][v] = scale · rows[t] · head[v] for entries from `begin` to `end`.
void exactly(const float* rows, const float* head, float scale, float* out, int count, int64_t entries, int64_t begin, int64_t end,
             int width) {
  for (int64_t v = begin; v < end; ++v) {
    const float* entry = head + v * width;
    for (int t = 0; t < count; ++t) {
      const float* row = rows + int64_t(t) * width;
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int c = 0; c < width; ++c) sum += row[c] * entry[c];
      out[t * entries + v] = sum * scale;
    }
  }
}

// about[v] = size[v] · step · (row · coarse[v]) for entries from `begin` to `end`.
void coarsely(const int16_t* row, float step, const int8_t* coarse, const float* size, float* about, int64_t begin, int64_t end,
              int width) {
  for (int64_t v = begin; v < end; ++v) about[v] = size[v] * (dot(row, coarse + v * width, width) * step);
}

inline float silu(float x) { return x / (1.0f + std::exp(-x)); }

}  // namespace

// x [t][heads · width] to out of the same shape; the stream's channels begin at `offset` of every head.
extern "C" void inkling_sconv(const Taps* taps, const float* x, const float* weight, float* out, int heads, int width, int offset) {
  const Taps& s = *taps;
  const int64_t stride = int64_t(heads) * width;
  const int threads = s.rows < MANY ? 1 : s.threads, channels = heads * width;
  const std::vector<float> turned = by_tap(weight, channels, s.taps);
#pragma omp parallel for num_threads(threads) if (threads > 1)
  for (int row = 0; row < s.rows; ++row) {
    const Sources from = sources(s, row);
    for (int h = 0; h < heads; ++h)
      convolve(s, from, x + h * width, stride, row, turned.data() + h * width, channels, h * s.head + offset, width,
               out + row * stride + h * width);
  }
  // Only now: a row's inputs may take the place of ones that another row of this step still read.
  for (int row = 0; row < s.rows; ++row)
    for (int h = 0; h < heads; ++h) keep(s, row, x + row * stride + h * width, h * s.head + offset, width);
}

extern "C" struct Prepared {
  const float* fused;          // [t][queries | keys | values | relative]
  const float* key_weight;     // [kv · c][taps]
  const float* value_weight;
  const float* query_norm;     // [c]
  const float* key_norm;
  const float* bank;           // [d][distance]
  const float* factor;         // [t], or null
  const int64_t* slots;        // [t], of keys and values; negative: nobody's row
  float* queries;              // [t][h][c]
  float* relative;             // [t][h][distance]; null: only its input is made
  float* branch;               // [t][h][d], the relative branch times the factor; null: not wanted
  float* key_cache;            // [block][page][kv][c]
  float* value_cache;
  int64_t stride, key_block, key_slot, key_head, value_block, value_slot, value_head;
  int32_t heads, kv_heads, width, d_rel, extent, page, offset;
  float eps;
};

extern "C" void inkling_prepare(const Taps* taps, const Prepared* prepared) {
  const Taps& s = *taps;
  const Prepared& p = *prepared;
  const int c = p.width, threads = s.rows < MANY ? 1 : s.threads;
  const int64_t q_width = int64_t(p.heads) * c, kv_width = int64_t(p.kv_heads) * c;
  const std::vector<float> key_taps = by_tap(p.key_weight, kv_width, s.taps), value_taps = by_tap(p.value_weight, kv_width, s.taps);
#pragma omp parallel for num_threads(threads) if (threads > 1)
  for (int row = 0; row < s.rows; ++row) {
    const Sources from = sources(s, row);
    const float factor = p.factor ? p.factor[row] : 1.0f;
    const float* fused = p.fused + row * p.stride;
    float mixed[512];
    for (int h = 0; h < p.heads; ++h) norm(fused + h * c, p.query_norm, p.eps, c, factor, p.queries + row * q_width + h * c);
    for (int h = 0; h < p.kv_heads && p.slots[row] >= 0; ++h) {
      const int64_t block = p.slots[row] / p.page, slot = p.slots[row] % p.page;
      convolve(s, from, p.fused + q_width + h * c, p.stride, row, key_taps.data() + h * c, kv_width, h * s.head + p.offset, c, mixed);
      norm(mixed, p.key_norm, p.eps, c, 1.0f, p.key_cache + block * p.key_block + slot * p.key_slot + h * p.key_head);
      convolve(s, from, p.fused + q_width + kv_width + h * c, p.stride, row, value_taps.data() + h * c, kv_width, h * s.head + p.offset + c,
               c, p.value_cache + block * p.value_block + slot * p.value_slot + h * p.value_head);
    }
    const float* branch = fused + q_width + 2 * kv_width;
    if (p.branch)
      for (int i = 0; i < p.heads * p.d_rel; ++i) p.branch[int64_t(row) * p.heads * p.d_rel + i] = branch[i] * factor;
    if (!p.relative) continue;
    for (int h = 0; h < p.heads; ++h) {
      float* to = p.relative + (int64_t(row) * p.heads + h) * p.extent;
      std::fill(to, to + p.extent, 0.0f);
      for (int d = 0; d < p.d_rel; ++d) {
        const float r = branch[h * p.d_rel + d] * factor;
        const float* bank = p.bank + int64_t(d) * p.extent;
        for (int e = 0; e < p.extent; ++e) to[e] += r * bank[e];
      }
    }
  }
  for (int row = 0; row < s.rows; ++row)
    for (int h = 0; h < p.kv_heads; ++h) {
      const float* fused = p.fused + row * p.stride + q_width + h * c;
      keep(s, row, fused, h * s.head + p.offset, c);
      keep(s, row, fused + kv_width, h * s.head + p.offset + c, c);
    }
}

// total = residual + delta (in place of residual's copy `total`), out = its norm.
extern "C" void inkling_add_norm(const float* residual, const float* delta, const float* weight, float eps, float* total, float* out,
                                      int rows, int width, int threads) {
#pragma omp parallel for num_threads(threads) if (rows >= MANY && threads > 1)
  for (int row = 0; row < rows; ++row) {
    const int64_t at = int64_t(row) * width;
    for (int c = 0; c < width; ++c) total[at + c] = residual[at + c] + delta[at + c];
    norm(total + at, weight, eps, width, 1.0f, out + at);
  }
}

// Experts by falling sigmoid plus bias, the lower index first in a tie, then the shared ones; weights are shares of the sigmoids.
extern "C" void inkling_choose(const float* logits, int64_t stride, const float* bias, int routed, int top, int shared, float scale,
                               float* weights, int32_t* ids, int rows) {
  std::vector<float> scores(routed);
  const int all = top + shared;
  for (int row = 0; row < rows; ++row) {
    const float* logit = logits + row * stride;
    float* weight = weights + int64_t(row) * all;
    int32_t* id = ids + int64_t(row) * all;
    for (int e = 0; e < routed; ++e) scores[e] = 1.0f / (1.0f + std::exp(-logit[e])) + (bias ? bias[e] : 0.0f);
    for (int k = 0; k < top; ++k) {
      int best = 0;
      for (int e = 1; e < routed; ++e)
        if (scores[e] > scores[best]) best = e;
      id[k] = best;
      scores[best] = -std::numeric_limits<float>::infinity();
    }
    for (int k = 0; k < shared; ++k) id[top + k] = routed + k;
    float most = -std::numeric_limits<float>::infinity(), total = 0;
    for (int k = 0; k < all; ++k) {
      const float x = logit[id[k]];
      weight[k] = std::min(x, 0.0f) - std::log1p(std::exp(-std::fabs(x)));
      most = std::max(most, weight[k]);
    }
    for (int k = 0; k < all; ++k) total += weight[k] = std::exp(weight[k] - most);
    for (int k = 0; k < all; ++k) weight[k] = weight[k] / total * scale;
  }
}

// Rows of alternating gate and up, [t][experts · 2c], to silu(gate) · up: both times `before`, the result times `gammas` and `after`,
// one value an expert, where these are given.
extern "C" void inkling_gated(const float* raw, const float* before, const float* gammas, int64_t gamma_row, const float* after,
                              float* out, int rows, int experts, int width) {
  for (int row = 0; row < rows; ++row)
    for (int e = 0; e < experts; ++e) {
      const float* pair = raw + (int64_t(row) * experts + e) * 2 * width;
      float* to = out + (int64_t(row) * experts + e) * width;
      const float factor = before ? before[e] : 1.0f, gamma = gammas ? gammas[row * gamma_row + e] * after[e] : 1.0f;
      for (int c = 0; c < width; ++c) to[c] = silu(pair[2 * c] * factor) * (pair[2 * c + 1] * factor) * gamma;
    }
}

// out[t][v] = scale · rows[t] · head[v], for few rows: every row of the head is read once, whatever `count` is.
extern "C" void inkling_few_rows(const float* rows, const float* head, float scale, float* out, int count, int64_t entries, int width,
                                 int threads) {
  const int64_t share = (entries + threads - 1) / threads;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int part = 0; part < threads; ++part)
    exactly(rows, head, scale, out, count, entries, part * share, std::min(entries, (part + 1) * share), width);
}

// ids[t] = the entry v with the largest rows[t] · head[v], the first of equals. `coarse` is the head in bytes, a quarter of its size:
// head[v] ≈ size[v] · coarse[v], off by at most half a `size` in every channel; the row is rounded to 16 bits likewise. So an entry's
// product is known to within size[v] · off, and only the few that may still be the largest are read whole.
extern "C" void inkling_likeliest(const float* rows, const float* head, const int8_t* coarse, const float* size, int64_t* ids, int count,
                                  int64_t entries, int width, int threads) {
  std::vector<float> products(size_t(entries) * count), off(count), step(count);
  std::vector<int16_t> shortened(size_t(width) * count);
  float *about = products.data(), *steps = step.data();
  int16_t* rounded = shortened.data();
  for (int t = 0; t < count; ++t) {
    const float* row = rows + int64_t(t) * width;
    float largest = std::numeric_limits<float>::min(), sum = 0;
    for (int c = 0; c < width; ++c) largest = std::max(largest, std::fabs(row[c])), sum += std::fabs(row[c]);
    step[t] = largest / 32767;
    for (int c = 0; c < width; ++c) rounded[t * width + c] = int16_t(std::lrint(row[c] / step[t]));
    // A hundredth more than the two roundings: the sums' own errors in float32 are far below that.
    off[t] = 1.01f * (sum / 2 + step[t] / 2 * 127 * width);
  }
  const int64_t share = (entries + threads - 1) / threads;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int part = 0; part < threads; ++part)
    for (int t = 0; t < count; ++t)
      coarsely(rounded + t * width, steps[t], coarse, size, about + t * entries, part * share, std::min(entries, (part + 1) * share), width);
  for (int t = 0; t < count; ++t) {
    const float *row = rows + int64_t(t) * width, *mine = about + t * entries;
    float least = -std::numeric_limits<float>::infinity(), best = least;
    for (int64_t v = 0; v < entries; ++v) least = std::max(least, mine[v] - size[v] * off[t]);
    ids[t] = 0;
    for (int64_t v = 0; v < entries; ++v) {
      if (mine[v] + size[v] * off[t] < least) continue;
      const float* entry = head + v * width;
      float exact = 0;
#pragma omp simd reduction(+ : exact)
      for (int c = 0; c < width; ++c) exact += row[c] * entry[c];
      if (exact > best) best = exact, ids[t] = v;
    }
  }
}
