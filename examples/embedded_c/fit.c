/* Fits a decaying oscillation to noisy points by descent with momentum, with the gradient that symgrad exported. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "misfit.h"

enum { PARAMETERS = 4, POINTS = 200 };

int main(void) {
  static double t[POINTS], y[POINTS];
  const double truth[PARAMETERS] = {2.0, 0.3, 3.0, 0.5};
  unsigned noise = 1;
  for (int i = 0; i < POINTS; i++) {
    noise = noise * 1664525u + 1013904223u;
    t[i] = 5.0 * i / POINTS;
    y[i] = truth[0] * exp(-truth[1] * t[i]) * cos(truth[2] * t[i] + truth[3]) + 1e-3 * (noise / 4294967296.0 - 0.5);
  }

  size_t bytes = misfit_vag_workspace(PARAMETERS, POINTS);
  void *workspace = malloc(bytes);
  if (!workspace) return 1;
  double p[PARAMETERS] = {1.5, 0.2, 2.8, 0.3}, speed[PARAMETERS] = {0}, value = 0, slope[PARAMETERS];
  for (int step = 0; step < 4000; step++) {
    int status = misfit_vag(PARAMETERS, POINTS, p, t, y, &value, slope, workspace, bytes);
    if (status) {
      fprintf(stderr, "%s\n", misfit_strerror(status));
      return 1;
    }
    for (int k = 0; k < PARAMETERS; k++) {
      speed[k] = 0.9 * speed[k] - 2e-4 * slope[k];
      p[k] += speed[k];
    }
  }
  free(workspace);

  printf("misfit %.3e at", value);
  for (int k = 0; k < PARAMETERS; k++) printf(" %.5f", p[k]);
  printf("\n");
  for (int k = 0; k < PARAMETERS; k++)
    if (fabs(p[k] - truth[k]) > 1e-3) return 1;
  return 0;
}
