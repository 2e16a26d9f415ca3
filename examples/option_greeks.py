"""The Greeks of a table of options: the Black-Scholes price in plain NumPy, its derivatives row by row."""

from pathlib import Path

import numpy as np
from scipy.special import erf

import symgrad as sg

DATA = Path(__file__).parent / "data" / "options.csv"


def normal_cdf(z):
    return 0.5 * (1.0 + erf(z / np.sqrt(2.0)))


def price(spot, strike, maturity, rate, volatility, sign):
    """Value a European option; sign is +1 for a call and -1 for a put."""
    spread = volatility * np.sqrt(maturity)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * maturity) / spread
    d2 = d1 - spread
    return sign * (spot * normal_cdf(sign * d1) - strike * np.exp(-rate * maturity) * normal_cdf(sign * d2))


first_order = sg.vmap(sg.value_and_grad(price, argnums=(0, 2, 3, 4)))
second_order = sg.vmap(sg.hessian(price))


def greeks(contracts):
    """Return name -> one number a contract, by differentiating the price."""
    value, (delta, by_maturity, rho, vega) = first_order(*contracts)
    gamma = second_order(*contracts)
    return {"price": value, "delta": delta, "gamma": gamma, "vega": vega, "theta": -by_maturity, "rho": rho}


def closed_forms(spot, strike, maturity, rate, volatility, sign):
    """Return the same table from the textbook's formulas."""
    spread = volatility * np.sqrt(maturity)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * maturity) / spread
    d2 = d1 - spread
    density = np.exp(-0.5 * d1**2) / np.sqrt(2 * np.pi)
    discounted = strike * np.exp(-rate * maturity)
    return {
        "price": sign * (spot * normal_cdf(sign * d1) - discounted * normal_cdf(sign * d2)),
        "delta": sign * normal_cdf(sign * d1),
        "gamma": density / (spot * spread),
        "vega": spot * density * np.sqrt(maturity),
        "theta": -spot * density * volatility / (2 * np.sqrt(maturity))
        - sign * rate * discounted * normal_cdf(sign * d2),
        "rho": sign * maturity * discounted * normal_cdf(sign * d2),
    }


def main():
    columns = np.loadtxt(DATA, delimiter=",", skiprows=1, dtype=str).T
    sign = np.where(columns[0] == "call", 1.0, -1.0)
    spot, strike, maturity, rate, volatility = columns[1:].astype(float)
    contracts = (spot, strike, maturity, rate, volatility, sign)
    table = greeks(contracts)

    print("kind  strike  years" + "".join(f"{name:>11}" for name in table))
    for row in range(len(sign)):
        numbers = "".join(f"{column[row]:>11.4f}" for column in table.values())
        print(f"{columns[0][row]:<4}{strike[row]:>8.0f}{maturity[row]:>7.2f}{numbers}")

    errors = {name: np.max(np.abs(table[name] - exact)) for name, exact in closed_forms(*contracts).items()}
    print("largest difference from the closed forms:", ", ".join(f"{name} {e:.0e}" for name, e in errors.items()))
    assert max(errors.values()) < 1e-9, "the derivatives disagree with the closed forms"


if __name__ == "__main__":
    main()
