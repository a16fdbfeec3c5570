/* palette.h: the colours of all pictures, after Okabe and Ito: colour-blind readers can distinguish
 * them. The page's style sheet (page/page.css) has the same colours. */
#ifndef CRN_PALETTE_H
#define CRN_PALETTE_H

#define CRN_BLUE "#0072b2"
#define CRN_VERMILLION "#d55e00"
#define CRN_GREEN "#009e73"
#define CRN_YELLOW "#e6b000"
#define CRN_PURPLE "#cc79a7"
#define CRN_SKY "#56b4e9"
#define CRN_BLACK "#1a1a1a"
#define CRN_PEAK "#a3004f"
#define CRN_NONE_GREY "#8c8c8c"

#define CRN_FONT "font-family=\"Helvetica, Arial, sans-serif\""

/* An estimate of the width of a text in a font of this size, in pixels. It is rather too large than
 * too small. */
static inline uint32_t crn_text_width(size_t characters, uint32_t font_size) {
    return (uint32_t)(characters * font_size * 6 / 10 + font_size / 2);
}

#endif
