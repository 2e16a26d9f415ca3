/* Gradients written by hand: value returned, gradients stored. Every function takes its inputs, the places of its
   gradients and the lengths, as arrays. Built with -O3 -march=native -ffast-math, so that loops vectorise. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define INPUTS const double *const *in, double *const *out, const long *size
typedef double (*gradient)(INPUTS);

/* One after the other, so that a function of a few nanoseconds can be timed. */
double repeated(gradient f, long times, INPUTS) {
  double total = 0;
  for (long k = 0; k < times; k++) total += f(in, out, size);
  return total;
}

double two_floats(INPUTS) {
  double x = *in[0], y = *in[1], e = exp(x * y), s = sin(x);
  *out[0] = y * (cos(x) + e);
  *out[1] = s + x * e;
  return s * y + e;
}

double rosenbrock(INPUTS) {
  const double *restrict x = in[0];
  double *restrict g = out[0], total = 0;
  long n = size[0];
  g[n - 1] = 200 * (x[n - 1] - x[n - 2] * x[n - 2]);
  for (long i = 1; i < n - 1; i++) {
    double miss = x[i + 1] - x[i] * x[i], before = x[i] - x[i - 1] * x[i - 1], short_of = 1 - x[i];
    g[i] = 200 * before - 400 * x[i] * miss - 2 * short_of;
    total += 100 * miss * miss + short_of * short_of;
  }
  double miss = x[1] - x[0] * x[0], short_of = 1 - x[0];
  g[0] = -400 * x[0] * miss - 2 * short_of;
  return total + 100 * miss * miss + short_of * short_of;
}

double black_scholes(INPUTS) {
  const double *restrict spot = in[0], *restrict strike = in[1], *restrict time = in[2], *restrict vol = in[3];
  double rate = *in[4], total = 0;
  for (long i = 0; i < size[0]; i++) {
    double root = sqrt(time[i]), spread = vol[i] * root;
    double d1 = (log(spot[i] / strike[i]) + (rate + 0.5 * vol[i] * vol[i]) * time[i]) / spread, d2 = d1 - spread;
    double c1 = 0.5 * (1 + erf(d1 * M_SQRT1_2)), c2 = 0.5 * (1 + erf(d2 * M_SQRT1_2));
    double discount = exp(-rate * time[i]), vega = spot[i] * root * exp(-0.5 * d1 * d1) * 0.3989422804014327;
    out[0][i] = c1;
    out[1][i] = -discount * c2;
    out[2][i] = vega * vol[i] / (2 * time[i]) + rate * strike[i] * discount * c2;
    out[3][i] = vega;
    total += spot[i] * c1 - strike[i] * discount * c2;
  }
  return total;
}

double logistic(INPUTS) {
  const double *restrict w = in[0], *restrict x = in[1], *restrict y = in[2];
  double *restrict g = out[0], total = 0;
  long n = size[0], d = size[1];
  memset(g, 0, sizeof(double) * d);
  for (long i = 0; i < n; i++) {
    const double *restrict row = x + i * d;
    double margin = 0;
    for (long j = 0; j < d; j++) margin += row[j] * w[j];
    margin *= -y[i];
    double e = exp(-fabs(margin)), share = (margin > 0 ? 1 : e) / (1 + e);
    total += (margin > 0 ? margin : 0) + log1p(e);
    double slope = -y[i] * share / n;
    for (long j = 0; j < d; j++) g[j] += slope * row[j];
  }
  return total / n;
}

double log_sum_exp(INPUTS) {
  long n = size[0], m = size[1];
  double total = 0;
  for (long i = 0; i < n; i++) {
    const double *restrict row = in[0] + i * m;
    double *restrict g = out[0] + i * m, most = row[0], sum = 0;
    for (long j = 1; j < m; j++) most = row[j] > most ? row[j] : most;
    for (long j = 0; j < m; j++) {
      g[j] = exp(row[j] - most);
      sum += g[j];
    }
    double scale = 1 / sum;
    for (long j = 0; j < m; j++) g[j] *= scale;
    total += log(sum) + most;
  }
  return total;
}

double lennard_jones(INPUTS) {
  long n = size[0];
  double *c = malloc(6 * n * sizeof(double)), *restrict x = c, *restrict y = c + n, *restrict z = c + 2 * n, total = 0;
  for (long i = 0; i < n; i++)
    for (long k = 0; k < 3; k++) c[k * n + i] = in[0][3 * i + k];
  for (long i = 0; i < n; i++) {
    double gx = 0, gy = 0, gz = 0, sum = 0;
    for (long j = 0; j < n; j++) {
      double dx = x[i] - x[j], dy = y[i] - y[j], dz = z[i] - z[j], square = dx * dx + dy * dy + dz * dz;
      double inverse = i == j ? 0 : 1 / square, cube = inverse * inverse * inverse;
      sum += 4 * (cube * cube - cube);
      double slope = -24 * (2 * cube * cube - cube) * inverse;
      gx += slope * dx;
      gy += slope * dy;
      gz += slope * dz;
    }
    total += 0.5 * sum;
    out[0][3 * i] = gx;
    out[0][3 * i + 1] = gy;
    out[0][3 * i + 2] = gz;
  }
  free(c);
  return total;
}

/* Forward with all states kept, then the adjoint of one step after the other. */
double pendulum(INPUTS) {
  enum { STEPS = 1000 };
  static double angles[STEPS], speeds[STEPS];
  double h = 0.01, angle = *in[0], speed = *in[1], damping = *in[2];
  for (int k = 0; k < STEPS; k++) {
    angles[k] = angle;
    speeds[k] = speed;
    double a1 = speed, s1 = -sin(angle) - damping * a1;
    double a2 = speed + 0.5 * h * s1, s2 = -sin(angle + 0.5 * h * a1) - damping * a2;
    double a3 = speed + 0.5 * h * s2, s3 = -sin(angle + 0.5 * h * a2) - damping * a3;
    double a4 = speed + h * s3, s4 = -sin(angle + h * a3) - damping * a4;
    angle += h / 6 * (a1 + 2 * a2 + 2 * a3 + a4);
    speed += h / 6 * (s1 + 2 * s2 + 2 * s3 + s4);
  }
  double value = angle * angle + speed * speed, ga = 2 * angle, gs = 2 * speed, gd = 0;
  for (int k = STEPS - 1; k >= 0; k--) {
    double q = angles[k], v = speeds[k];
    double a1 = v, s1 = -sin(q) - damping * a1, a2 = v + 0.5 * h * s1, s2 = -sin(q + 0.5 * h * a1) - damping * a2;
    double a3 = v + 0.5 * h * s2, s3 = -sin(q + 0.5 * h * a2) - damping * a3, a4 = v + h * s3;
    double A1 = h / 6 * ga, A2 = h / 3 * ga, A3 = A2, A4 = A1, S1 = h / 6 * gs, S2 = h / 3 * gs, S3 = S2, S4 = S1;
    double to = -cos(q + h * a3) * S4; /* of the angle inside the last sine, and so on backwards */
    ga += to, A3 += h * to, A4 -= damping * S4, gd -= a4 * S4;
    gs += A4, S3 += h * A4;
    to = -cos(q + 0.5 * h * a2) * S3;
    ga += to, A2 += 0.5 * h * to, A3 -= damping * S3, gd -= a3 * S3;
    gs += A3, S2 += 0.5 * h * A3;
    to = -cos(q + 0.5 * h * a1) * S2;
    ga += to, A1 += 0.5 * h * to, A2 -= damping * S2, gd -= a2 * S2;
    gs += A2, S1 += 0.5 * h * A2;
    ga -= cos(q) * S1, A1 -= damping * S1, gd -= a1 * S1;
    gs += A1;
  }
  *out[0] = ga, *out[1] = gs, *out[2] = gd;
  return value;
}

double kepler(INPUTS) {
  double mean = *in[0], e = *in[1], x = mean, step;
  do x -= step = (x - e * sin(x) - mean) / (1 - e * cos(x));
  while (fabs(step) >= 1e-13);
  double slope = 1 / (1 - e * cos(x));
  *out[0] = slope;
  *out[1] = sin(x) * slope;
  return x;
}

/* Of a joint the hand turns about the axis z at the place p: its slope is z times (hand - p). */
double reach(INPUTS) {
  enum { JOINTS = 6 };
  static const double links[JOINTS][3] = {{0.1, 1.2, 0.3},    {0.05, -1.1, 0.2}, {0.2, 0.9, 0.1},
                                          {-0.1, -1.4, 0.25}, {0.15, 1.3, 0.05}, {0.0, -0.8, 0.3}};
  double x[3] = {1, 0, 0}, y[3] = {0, 1, 0}, z[3] = {0, 0, 1}, p[3] = {0}, axis[JOINTS][3], place[JOINTS][3];
  for (int k = 0; k < JOINTS; k++) {
    double c = cos(in[0][k]), s = sin(in[0][k]), ct = cos(links[k][1]), st = sin(links[k][1]);
    for (int i = 0; i < 3; i++) {
      axis[k][i] = z[i], place[k][i] = p[i];
      double u = c * x[i] + s * y[i], w = c * y[i] - s * x[i];
      p[i] += links[k][0] * u + links[k][2] * z[i];
      x[i] = u, y[i] = ct * w + st * z[i], z[i] = ct * z[i] - st * w;
    }
  }
  double miss[3] = {p[0] - 0.3, p[1] + 0.2, p[2] - 0.5};
  for (int k = 0; k < JOINTS; k++) {
    double *a = axis[k], r[3] = {p[0] - place[k][0], p[1] - place[k][1], p[2] - place[k][2]};
    out[0][k] = 2 * (miss[0] * (a[1] * r[2] - a[2] * r[1]) + miss[1] * (a[2] * r[0] - a[0] * r[2]) +
                     miss[2] * (a[0] * r[1] - a[1] * r[0]));
  }
  return miss[0] * miss[0] + miss[1] * miss[1] + miss[2] * miss[2];
}

/* Points lie side by side, in blocks that stay in cache; of a factor only the lower triangle is touched. */
double mixture(INPUTS) {
  enum { BLOCK = 64 };
  const double *weights = in[0], *means = in[1], *factors = in[2], *logs = in[3], *x = in[4];
  long k = size[0], d = size[1], n = size[2], blocks = (n + BLOCK - 1) / BLOCK, all = blocks * BLOCK;
  double *low = calloc(k * d * d, sizeof(double)), *points = calloc(all * d, sizeof(double));
  double *z = malloc(sizeof(double) * k * all * d), *inner = malloc(sizeof(double) * k * all);
  double *diff = malloc(sizeof(double) * BLOCK * d), total = 0;
  for (long c = 0; c < k; c++)
    for (long j = 0; j < d; j++) {
      memcpy(low + (c * d + j) * d, factors + (c * d + j) * d, sizeof(double) * j);
      low[(c * d + j) * d + j] = exp(logs[c * d + j]);
    }
  for (long p = 0; p < n; p++)
    for (long i = 0; i < d; i++) points[(p / BLOCK * d + i) * BLOCK + p % BLOCK] = x[p * d + i];
  for (long c = 0; c < k; c++) {
    double base = weights[c];
    for (long j = 0; j < d; j++) base += logs[c * d + j];
    for (long b = 0; b < blocks; b++) {
      double square[BLOCK] = {0};
      for (long i = 0; i < d; i++)
        for (int p = 0; p < BLOCK; p++) diff[i * BLOCK + p] = points[(b * d + i) * BLOCK + p] - means[c * d + i];
      for (long j = 0; j < d; j++) {
        double sum[BLOCK] = {0}, *to = z + ((c * blocks + b) * d + j) * BLOCK;
        for (long i = 0; i <= j; i++)
          for (int p = 0; p < BLOCK; p++) sum[p] += low[(c * d + j) * d + i] * diff[i * BLOCK + p];
        for (int p = 0; p < BLOCK; p++) to[p] = sum[p], square[p] += sum[p] * sum[p];
      }
      for (int p = 0; p < BLOCK; p++) inner[c * all + b * BLOCK + p] = base - 0.5 * square[p];
    }
  }
  for (long b = 0; b < blocks; b++) {
    double most[BLOCK], sum[BLOCK] = {0};
    for (int p = 0; p < BLOCK; p++) most[p] = inner[b * BLOCK + p];
    for (long c = 1; c < k; c++)
      for (int p = 0; p < BLOCK; p++) most[p] = fmax(most[p], inner[c * all + b * BLOCK + p]);
    for (long c = 0; c < k; c++)
      for (int p = 0; p < BLOCK; p++) {
        double *e = inner + c * all + b * BLOCK + p;
        sum[p] += *e = exp(*e - most[p]);
      }
    for (int p = 0; p < BLOCK && b * BLOCK + p < n; p++) total += log(sum[p]) + most[p];
    for (long c = 0; c < k; c++)
      for (int p = 0; p < BLOCK; p++) inner[c * all + b * BLOCK + p] *= b * BLOCK + p < n ? 1 / sum[p] : 0;
  }
  double most = weights[0], sum = 0;
  for (long c = 1; c < k; c++) most = fmax(most, weights[c]);
  for (long c = 0; c < k; c++) sum += exp(weights[c] - most);
  total -= n * (log(sum) + most);
  memset(out[2], 0, sizeof(double) * k * d * d);
  for (long c = 0; c < k; c++) {
    double share = 0, *g = out[2] + c * d * d, *to = malloc(sizeof(double) * d);
    memset(to, 0, sizeof(double) * d);
    for (long p = 0; p < all; p++) share += inner[c * all + p];
    for (long b = 0; b < blocks; b++) {
      const double *r = inner + c * all + b * BLOCK;
      for (long i = 0; i < d; i++)
        for (int p = 0; p < BLOCK; p++) diff[i * BLOCK + p] = points[(b * d + i) * BLOCK + p] - means[c * d + i];
      for (long j = 0; j < d; j++) {
        double slope[BLOCK], *from = z + ((c * blocks + b) * d + j) * BLOCK, whole = 0;
        for (int p = 0; p < BLOCK; p++) slope[p] = -r[p] * from[p], whole += slope[p];
        to[j] += whole;
        for (long i = 0; i <= j; i++) {
          double s = 0;
          for (int p = 0; p < BLOCK; p++) s += slope[p] * diff[i * BLOCK + p];
          g[j * d + i] += s;
        }
      }
    }
    out[0][c] = share - n * exp(weights[c] - most) / sum;
    for (long i = 0; i < d; i++) {
      double s = 0;
      for (long j = i; j < d; j++) s -= to[j] * low[(c * d + j) * d + i];
      out[1][c * d + i] = s;
      out[3][c * d + i] = share + g[i * d + i] * low[(c * d + i) * d + i];
      g[i * d + i] = 0;
    }
    free(to);
  }
  free(low), free(points), free(z), free(inner), free(diff);
  return total;
}
