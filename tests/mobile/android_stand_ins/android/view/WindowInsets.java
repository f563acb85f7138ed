package android.view;

import android.graphics.Insets;

public class WindowInsets {
    public static final class Type {
        public static int systemBars() {
            return 7;
        }

        public static int displayCutout() {
            return 128;
        }
    }

    public Insets getInsets(int typeMask) {
        return typeMask == 135 ? new Insets(0, 96, 0, 126) : new Insets(1, 1, 1, 1);
    }

    public int getSystemWindowInsetLeft() {
        return 0;
    }

    public int getSystemWindowInsetTop() {
        return 72;
    }

    public int getSystemWindowInsetRight() {
        return 0;
    }

    public int getSystemWindowInsetBottom() {
        return 120;
    }
}
