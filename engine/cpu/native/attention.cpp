// Inkling's attention over paged keys and values, for CPUs: exact, float32, one pass over the keys with running maxima.
//
// The torch kernels (engine/cpu/attention.py) are the reference; tests hold the two equal. What differs is the order of the work:
//
//   - a task is a stretch of rows of one key/value head. Rows are (query, head) pairs, the heads of a group next to each other, so
//     that a tile of rows shares its keys and values whatever the number of heads;
//   - keys come in blocks of SUPER that stay in the second-level cache while every tile of the task passes over them. They are
//     read from their pages once per task and laid out so that one load holds the same channel of neighbouring keys;
//   - within such a block, 256 keys at a time: scores, bias and mask where the bias reaches, exp, weighted values.
//
// Blocks lie at fixed positions of the sequence: how a prompt was split over steps does not change a row's sums.
//
// The file includes itself once per instruction set; the widest that the processor has is chosen when it is called.
// Knows no Python and no torch; threads are OpenMP's, as many as it is told.

#ifndef LANES

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace {

constexpr int BLOCK = 256;               // keys between two looks at the running maximum
constexpr float LOWEST = -1e30f;         // a maximum before any key: finite, so that differences are
constexpr float NEVER = -std::numeric_limits<float>::infinity();

}  // namespace

// All requests of a step, one layer. Strides count elements; the last axis of everything is dense.
extern "C" struct Step {
  const float* q;            // [t][h][c]
  const float* relative;     // [t][h][extent], by distance
  float* out;                // [t][h][c]
  const void* keys;          // pages [block][page][kv head][c], float32 or bfloat16
  const void* values;
  const int32_t* table;      // [request][pages of it]
  const int32_t* lengths;    // keys of each request, the step's own included
  const int32_t* bounds;     // first row of t of each request, and the end
  int64_t key_block, key_slot, key_head;
  int64_t value_block, value_slot, value_head;
  int64_t table_row;
  int32_t requests, heads, kv_heads, width, page, extent;
  int32_t local;             // keys beyond the extent are not seen
  int32_t bfloat16;          // pages hold bfloat16
  int32_t threads;
  float scale;
};

namespace {

// Rows [row, row_end) of one key/value head of a request, against its keys [key, key_end).
struct Task {
  int32_t request, kv, row, row_end, key, key_end;
  float* partial;            // where the unnormalised sums go when several tasks share the rows, else null
  double work;
};

// What a thread keeps from call to call.
struct Scratch {
  std::vector<float> keys, values, state, tile, scores;
  static float* sized(std::vector<float>& v, size_t count) {
    if (v.size() < count) v.resize(count);
    return v.data();
  }
};

inline int round_up(int n, int to) { return (n + to - 1) / to * to; }

// Channels of a sum of values, padded to whole vectors of every instruction set.
inline int padded(int width) { return round_up(width, 32); }

// Keys that are packed at a time: keys and values of a block together about half a megabyte.
inline int super_block(int width) { return std::clamp(65536 / padded(width) / BLOCK * BLOCK, BLOCK, 2048); }

inline float widen(float x) { return x; }
inline float widen(uint16_t x) {
  uint32_t bits = uint32_t(x) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

using Attend = void (*)(const Step&, const Task&, Scratch&);

}  // namespace

#define LANES 4
#define SET plain
#define TARGET
#define ROWS 4
#include __FILE__

#if defined(__x86_64__)
#define LANES 8
#define SET avx2
#define TARGET __attribute__((target("avx2,fma")))
#define ROWS 4
#include __FILE__

#define LANES 16
#define SET avx512
#define TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma")))
#define ROWS 8
#include __FILE__
#endif

namespace {

Attend kernel_of(int set) {
#if defined(__x86_64__)
  if (set == 2) return avx512::attend;
  if (set == 1) return avx2::attend;
#endif
  return plain::attend;
}

// Sums of the same rows over different keys become one: [parts][rows][padded + 2] to the output.
void merge(const Step& s, const Task& t, int parts) {
  const int wide = padded(s.width), group = s.heads / s.kv_heads, rows = t.row_end - t.row, each = wide + 2;
  for (int r = 0; r < rows; ++r) {
    float best = LOWEST, total = 0;
    for (int p = 0; p < parts; ++p) best = std::max(best, t.partial[(size_t(p) * rows + r) * each + wide]);
    const int row = t.row + r;
    float* out = s.out + (size_t(s.bounds[t.request] + row / group) * s.heads + t.kv * group + row % group) * s.width;
    std::fill(out, out + s.width, 0.0f);
    for (int p = 0; p < parts; ++p) {
      const float* state = t.partial + (size_t(p) * rows + r) * each;
      const float share = std::exp(state[wide] - best);
      total += share * state[wide + 1];
      for (int d = 0; d < s.width; ++d) out[d] += share * state[d];
    }
    for (int d = 0; d < s.width; ++d) out[d] /= total;
  }
}

}  // namespace

// The widest instruction set that this processor has: 0 plain, 1 AVX2, 2 AVX-512.
extern "C" int inkling_widest(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return 2;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
  return 0;
}

extern "C" void inkling_attend(const Step* step, int set) {
  const Step& s = *step;
  const Attend attend = kernel_of(set);
  const int group = s.heads / s.kv_heads, wide = padded(s.width), super = super_block(s.width);
  int pieces = 0;
  for (int i = 0; i < s.requests; ++i) pieces += s.bounds[i + 1] > s.bounds[i] ? s.kv_heads : 0;
  std::vector<Task> tasks, split;
  std::vector<float> partials;
  std::vector<size_t> offsets;
  double work = 0;
  size_t space = 0;
  for (int i = 0; i < s.requests; ++i) {
    const int queries = s.bounds[i + 1] - s.bounds[i], length = s.lengths[i], rows = queries * group;
    if (!queries) continue;
    // Enough tasks to share out, none so small that reading its keys is most of its work, none so large that its sums leave the cache.
    const int wanted = (2 * s.threads + pieces - 1) / pieces;
    const int per_task = round_up(std::clamp((rows + wanted - 1) / wanted, std::min(rows, 256), 2048), group);
    const int stretches = (rows + per_task - 1) / per_task;
    int parts = 1;
    if (!s.local && pieces * stretches < s.threads)
      parts = std::clamp(length / (2 * super), 1, (s.threads + pieces * stretches - 1) / (pieces * stretches));
    const int keys_per_part = parts > 1 ? round_up((length + parts - 1) / parts, super) : length;
    for (int kv = 0; kv < s.kv_heads; ++kv)
      for (int row = 0; row < rows; row += per_task) {
        const int end = std::min(row + per_task, rows), seen = length - queries + (end + group - 1) / group;
        const double cost = double(end - row) * (s.local ? std::min(seen, s.extent) : seen);
        work += cost;
        if (parts > 1) split.push_back({i, kv, row, end, 0, length, nullptr, 0}), offsets.push_back(space);
        for (int key = 0; key < (parts > 1 ? length : 1); key += keys_per_part) {
          const int key_end = parts > 1 ? std::min(key + keys_per_part, length) : length;
          tasks.push_back({i, kv, row, end, key, key_end, nullptr, cost / parts});
          if (parts > 1) space += size_t(end - row) * (wide + 2);
        }
      }
  }
  if (space) {
    partials.resize(space);
    float* at = partials.data();
    for (Task& t : tasks)
      if (t.key > 0 || t.key_end < s.lengths[t.request]) t.partial = at, at += size_t(t.row_end - t.row) * (wide + 2);
    for (size_t i = 0; i < split.size(); ++i) split[i].partial = partials.data() + offsets[i];
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.work > b.work; });
  // Waking threads costs some microseconds: as much as a few hundred thousand products.
  const int count = int(tasks.size()), threads = work * s.width < 4e5 ? 1 : std::min(s.threads, count);
  if (threads <= 1) {
    static thread_local Scratch scratch;
    for (const Task& t : tasks) attend(s, t, scratch);
  } else {
#pragma omp parallel num_threads(threads)
    {
      static thread_local Scratch scratch;
#pragma omp for schedule(dynamic, 1)
      for (int i = 0; i < count; ++i) attend(s, tasks[i], scratch);
    }
  }
  for (size_t i = 0; i < split.size(); ++i) {
    const Task& t = split[i];
    const size_t each = size_t(t.row_end - t.row) * (wide + 2), end = i + 1 < split.size() ? offsets[i + 1] : space;
    merge(s, t, int((end - offsets[i]) / each));
  }
}

#else  // ---- once per instruction set

namespace {
namespace SET {

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));
constexpr int COLUMNS = 2 * LANES;       // keys, or channels of values, of a register tile

#define INLINE TARGET static inline __attribute__((always_inline))

INLINE vf load(const float* p) {
  vf v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
INLINE void store(float* p, vf v) { __builtin_memcpy(p, &v, sizeof v); }
INLINE vf larger(vf a, vf b) { return a > b ? a : b; }

// exp(x) for x <= 0: 2^n · 2^f with f in [-1/2, 1/2], relative error below 2e-7; zero below -87.
INLINE vf exp_of(vf x) {
  const vf t = x * 1.44269504088896341f, shifted = t + 12582912.0f, n = shifted - 12582912.0f, f = t - n;
  vf y = f * 1.535336188e-4f + 1.339887442e-3f;
  y = y * f + 9.618437358e-3f;
  y = y * f + 5.550332471e-2f;
  y = y * f + 2.402264791e-1f;
  y = y * f + 6.931472029e-1f;
  y = y * f + 1.0f;
  const vf scaled = (vf)((vi)y + ((vi)shifted << 23));
  return (vf)((vi)scaled & (vi)(x > -87.0f));
}

// Keys [low, high) into groups of COLUMNS, [group][c][COLUMNS]; values into rows of `wide`. Outside [begin, end) both are zero.
template <class T>
TARGET void pack(const Step& s, const Task& t, int low, int high, int begin, int end, float* keys, float* values) {
  const int c = s.width, wide = padded(c);
  const int32_t* table = s.table + t.request * s.table_row;
  const T *key_pages = static_cast<const T*>(s.keys) + t.kv * s.key_head;
  const T *value_pages = static_cast<const T*>(s.values) + t.kv * s.value_head;
  for (int at = low; at < high; ++at) {
    float* k = keys + size_t(at - low) / COLUMNS * COLUMNS * c + (at - low) % COLUMNS;
    float* v = values + size_t(at - low) * wide;
    if (at < begin || at >= end) {
      for (int d = 0; d < c; ++d) k[d * COLUMNS] = 0;
      std::memset(v, 0, wide * sizeof(float));
      continue;
    }
    const int64_t block = table[at / s.page], slot = at % s.page;
    const T* key = key_pages + block * s.key_block + slot * s.key_slot;
    const T* value = value_pages + block * s.value_block + slot * s.value_slot;
    for (int d = 0; d < c; ++d) k[d * COLUMNS] = widen(key[d]);
    for (int d = 0; d < c; ++d) v[d] = widen(value[d]);
    for (int d = c; d < wide; ++d) v[d] = 0;
  }
}

// ROWS queries [c][ROWS] by COLUMNS keys [c][COLUMNS].
INLINE void products(const float* q, const float* k, int c, float* scores) {
  vf a[ROWS][2] = {};
  for (int d = 0; d < c; ++d, q += ROWS, k += COLUMNS) {
    const vf k0 = load(k), k1 = load(k + LANES);
    for (int r = 0; r < ROWS; ++r) {
      a[r][0] += q[r] * k0;
      a[r][1] += q[r] * k1;
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    store(scores + r * BLOCK, a[r][0]);
    store(scores + r * BLOCK + LANES, a[r][1]);
  }
}

// Weights [ROWS][BLOCK] by `count` values of `wide`, added to sums [ROWS][wide].
INLINE void gathered(const float* weights, const float* values, int count, int wide, float* sums) {
  for (int from = 0; from < wide; from += COLUMNS) {
    vf a[ROWS][2];
    for (int r = 0; r < ROWS; ++r) a[r][0] = load(sums + r * wide + from), a[r][1] = load(sums + r * wide + from + LANES);
    const float* v = values + from;
    for (int j = 0; j < count; ++j, v += wide) {
      const vf v0 = load(v), v1 = load(v + LANES);
      for (int r = 0; r < ROWS; ++r) {
        a[r][0] += weights[r * BLOCK + j] * v0;
        a[r][1] += weights[r * BLOCK + j] * v1;
      }
    }
    for (int r = 0; r < ROWS; ++r) store(sums + r * wide + from, a[r][0]), store(sums + r * wide + from + LANES, a[r][1]);
  }
}

// Bias and mask of a row at `position`, for scores of the keys from `key` on.
TARGET void band(const Step& s, int position, int key, int count, const float* relative, float* scores) {
  const int reach = position - s.extent + 1;
  const int from = std::max(reach, key) - key, to = std::min(position + 1, key + count) - key, offset = position - key;
  for (int j = from; j < to; ++j) scores[j] += relative[offset - j];
  for (int j = std::max(to, 0); j < count; ++j) scores[j] = NEVER;
  if (s.local)
    for (int j = 0; j < std::min(from, count); ++j) scores[j] = NEVER;
}

// Scores of one row become weights; its maximum, total and sums follow.
INLINE void soften(float* scores, int count, float* maximum, float* total, float* sums, int wide) {
  vf top = load(scores);
  for (int j = LANES; j < count; j += LANES) top = larger(top, load(scores + j));
  float best = *maximum;
  for (int i = 0; i < LANES; ++i) best = std::max(best, top[i]);
  if (best > *maximum) {
    const float fade = std::exp(*maximum - best);
    *total *= fade;
    for (int d = 0; d < wide; d += LANES) store(sums + d, load(sums + d) * fade);
    *maximum = best;
  }
  vf sum = {};
  for (int j = 0; j < count; j += LANES) {
    const vf weight = exp_of(load(scores + j) - best);
    store(scores + j, weight);
    sum += weight;
  }
  float all = 0;
  for (int i = 0; i < LANES; ++i) all += sum[i];
  *total += all;
}

TARGET void attend(const Step& s, const Task& t, Scratch& own) {
  const int c = s.width, wide = padded(c), group = s.heads / s.kv_heads, super = super_block(c);
  const int queries = s.bounds[t.request + 1] - s.bounds[t.request], first = s.lengths[t.request] - queries;
  const int rows = t.row_end - t.row, held = round_up(rows, ROWS);
  const int begin = s.local ? std::max(t.key, first + t.row / group - s.extent + 1) : t.key;
  const int end = std::min(t.key_end, first + (t.row_end - 1) / group + 1);
  float* keys = Scratch::sized(own.keys, size_t(super) * c);
  float* values = Scratch::sized(own.values, size_t(super) * wide);
  float* sums = Scratch::sized(own.state, size_t(held) * (wide + 2));
  float *maxima = sums + size_t(held) * wide, *totals = maxima + held;
  float* tile = Scratch::sized(own.tile, size_t(ROWS) * c);
  float* scores = Scratch::sized(own.scores, ROWS * BLOCK);
  std::fill(sums, sums + size_t(held) * wide, 0.0f);
  std::fill(maxima, maxima + held, LOWEST);
  std::fill(totals, totals + held, 0.0f);
  const size_t head = size_t(t.kv) * group, top = s.bounds[t.request];

  for (int start = begin / super * super; start < end; start += super) {
    const int low = std::max(start, begin / COLUMNS * COLUMNS), high = std::min(start + super, round_up(end, COLUMNS));
    if (s.bfloat16)
      pack<uint16_t>(s, t, low, high, begin, end, keys, values);
    else
      pack<float>(s, t, low, high, begin, end, keys, values);
    for (int row = 0; row < rows; row += ROWS) {
      const int some = std::min(ROWS, rows - row), earliest = first + (t.row + row) / group;
      const int latest = first + (t.row + row + some - 1) / group;
      const int from = s.local ? std::max(low, (earliest - s.extent + 1) / COLUMNS * COLUMNS) : low;
      const int to = std::min(high, latest + 1);
      if (from >= to) continue;
      for (int r = 0; r < ROWS; ++r) {
        const int at = t.row + row + std::min(r, some - 1);
        const float* q = s.q + ((top + at / group) * s.heads + head + at % group) * c;
        for (int d = 0; d < c; ++d) tile[d * ROWS + r] = q[d] * s.scale;
      }
      for (int key = from; key < to;) {
        const int next = (key / BLOCK + 1) * BLOCK, count = round_up(std::min(next, to) - key, COLUMNS);
        for (int j = 0; j < count; j += COLUMNS) products(tile, keys + size_t(key - low + j) * c, c, scores + j);
        for (int r = 0; r < some; ++r) {
          const int at = t.row + row + r, position = first + at / group;
          if (s.local || key + count > position - s.extent + 1)
            band(s, position, key, count, s.relative + ((top + at / group) * s.heads + head + at % group) * s.extent, scores + r * BLOCK);
          soften(scores + r * BLOCK, count, maxima + row + r, totals + row + r, sums + size_t(row + r) * wide, wide);
        }
        for (int r = some; r < ROWS; ++r) std::memset(scores + r * BLOCK, 0, count * sizeof(float));
        gathered(scores, values + size_t(key - low) * wide, count, wide, sums + size_t(row) * wide);
        key = next;
      }
    }
  }

  for (int row = 0; row < rows; ++row) {
    const float* sum = sums + size_t(row) * wide;
    if (t.partial) {
      float* to = t.partial + size_t(row) * (wide + 2);
      std::memcpy(to, sum, wide * sizeof(float));
      to[wide] = maxima[row], to[wide + 1] = totals[row];
      continue;
    }
    const int at = t.row + row;
    float* out = s.out + ((top + at / group) * s.heads + head + at % group) * c;
    for (int d = 0; d < c; ++d) out[d] = sum[d] / totals[row];
  }
}

#undef INLINE

}  // namespace SET
}  // namespace

#undef LANES
#undef SET
#undef TARGET
#undef ROWS
#endif
