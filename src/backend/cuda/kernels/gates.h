/* gates.h: the nonlinear functions of transformers, for gate_kernels.h and for kernels that compute
 * them from their own results; no guard. See pack.h and ref_gates.c. */

#define gate_share FORM(gate_share)
#define gate_silu FORM(gate_silu)
#define gate_gelu FORM(gate_gelu)
#define gate_slope FORM(gate_slope)
#define gate_value FORM(gate_value)

/* The smaller share s of a sigmoid at x / gate_unit: the sigmoid is s if x < 0, else 1 - s. */
#if FORM_BF16
#define gate_unit 1.44269504f
CRN_DEVICE float gate_share(float x) {
    return crn_smaller_share_rough(x);
}
#else
#define gate_unit 1.0f
CRN_DEVICE float gate_share(float x) {
    return crn_smaller_share(x);
}
#endif

/* x times a sigmoid whose smaller share is `share` and that is above one half where x > 0. */
CRN_DEVICE float gate_silu(float x, float share) {
    return crn_fma(-fabsf(x), share, crn_relu(x));
}

/* Its slope: sigmoid + steep * sigmoid * (1 - sigmoid), steep being x times that of the argument.
 */
CRN_DEVICE float gate_slope(float x, float share, float steep) {
    float rest = 1 - share;
    return crn_fma(steep * share, rest, x < 0 ? share : rest);
}

/* x times the share of normal numbers below x. In bf16 the smaller share is that of a sigmoid of
 * base 2 at x times a polynomial in the square of x: within 5e-4 of itself up to |x| = 4, and the
 * result within 4e-5. */
CRN_DEVICE float gate_gelu(float x) {
#if FORM_BF16
    float square = fminf(x * x, 25.0f), sum = -4.80800608e-8f;
    sum = crn_fma(sum, square, 3.16610453e-6f);
    sum = crn_fma(sum, square, -6.21960789e-5f);
    sum = crn_fma(sum, square, -6.50427886e-4f);
    sum = crn_fma(sum, square, 0.106215328f);
    sum = crn_fma(sum, square, 2.30118155f);
    return gate_silu(x, gate_share(x * sum));
#else
    float density;
    return x * crn_normal(x, &density);
#endif
}

/* op is a constant here */
CRN_DEVICE pack gate_value(uint32_t op, pack a, pack b) {
    EACH(k) {
        float x = a.at[k], gy = b.at[k];
        switch (op) {
        case CRN_GELU:
            x = gate_gelu(x);
            break;
        case CRN_GELU_BWD: {
            float density, below = crn_normal(x, &density);
            x = gy * (below + x * density);
            break;
        }
        case CRN_GELU_TANH:
        case CRN_GELU_TANH_BWD: { /* (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)) */
            float square = x * x;
            float share =
                gate_share(x * crn_fma(0.0713548163f * gate_unit, square, 1.59576912f * gate_unit));
            float steep = x * crn_fma(0.214064449f, square, 1.59576912f);
            x = op == CRN_GELU_TANH ? gate_silu(x, share) : gy * gate_slope(x, share, steep);
            break;
        }
        case CRN_SILU:
        case CRN_SILU_BWD: {
            float share = gate_share(x * gate_unit);
            x = op == CRN_SILU ? gate_silu(x, share) : gy * gate_slope(x, share, x);
            break;
        }
        default:
            x = x * gy;
        }
        a.at[k] = x;
    }
    return a;
}
