#include "engine/model/rope.h"

#include <math.h>

static const double TWO_PI = 6.283185307179586;

/* Llama 3: long wavelengths are stretched by factor, short ones kept, between them a blend. */
static float llama3(const struct rope_cfg *c, float f) {
    double low_wave = c->original_ctx / c->low_freq_factor;
    double high_wave = c->original_ctx / c->high_freq_factor;
    double wave = TWO_PI / (double)f;
    if (wave < high_wave) {
        return f;
    }
    if (wave > low_wave) {
        return (float)((double)f / c->factor);
    }
    double smooth =
        (c->original_ctx / wave - c->low_freq_factor) / (c->high_freq_factor - c->low_freq_factor);
    return (float)((1 - smooth) * (double)f / c->factor + smooth * (double)f);
}

/* YaRN: the pair index at which a rotation count over the original context is reached. */
static double yarn_dim(const struct rope_cfg *c, int32_t head_dim, double rotations) {
    return head_dim * log(c->original_ctx / (rotations * TWO_PI)) / (2 * log(c->theta));
}

static void yarn(const struct rope_cfg *c, int32_t head_dim, float *freq) {
    double low = fmax(floor(yarn_dim(c, head_dim, c->beta_fast)), 0);
    double high = fmin(ceil(yarn_dim(c, head_dim, c->beta_slow)), head_dim - 1);
    if (low == high) {
        high += 0.001;
    }
    for (int32_t i = 0; i < head_dim / 2; i++) {
        double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
        double keep = 1 - ramp;
        freq[i] = (float)((double)freq[i] / c->factor * (1 - keep) + (double)freq[i] * keep);
    }
}

float rope_frequencies(const struct rope_cfg *c, int32_t head_dim, float *freq) {
    for (int32_t i = 0; i < head_dim / 2; i++) {
        float e = (float)(2 * i) / (float)head_dim;
        float f = 1.0f / (float)pow(c->theta, (double)e);
        if (c->freq_factor) {
            f /= c->freq_factor[i];
        }
        if (c->type == ROPE_LINEAR) {
            f = (float)((double)f / c->factor);
        } else if (c->type == ROPE_LLAMA3) {
            f = llama3(c, f);
        }
        freq[i] = f;
    }
    if (c->type != ROPE_YARN) {
        return 1;
    }
    yarn(c, head_dim, freq);
    if (c->attention_factor > 0) {
        return (float)c->attention_factor;
    }
    return c->factor <= 1 ? 1 : (float)(0.1 * log(c->factor) + 1);
}

void rope_table(const struct rope_cfg *c, int32_t head_dim, int32_t n_pos, float *table) {
    int32_t half = head_dim / 2;
    float *freq = table; /* why: row 0 is overwritten last-from-freq, so no scratch is needed */
    float factor = rope_frequencies(c, head_dim, freq);
    for (int32_t p = n_pos - 1; p >= 0; p--) {
        float *row = table + (int64_t)p * head_dim;
        for (int32_t i = half - 1; i >= 0; i--) {
            float angle = (float)p * freq[i];
            row[half + i] = (float)sin((double)angle) * factor;
            row[i] = (float)cos((double)angle) * factor;
        }
    }
}
